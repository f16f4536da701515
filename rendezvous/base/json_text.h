// JSON from and to text, by functions that are compiled once: each file that calls the library's own pays three seconds
// for them.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace ddprun {

nlohmann::json parse_json(std::string_view text);  // is_discarded() where the text is no JSON; never throws

struct JsonLayout {
  int indent = -1;     // spaces a level; -1: one line
  bool ascii = false;  // other characters as \uXXXX
};

// Without a line end. Bytes that are no UTF-8 become U+FFFD; NaN and infinities null.
std::string json_text(const nlohmann::json& value, const JsonLayout& layout = {});
std::string json_text(const nlohmann::ordered_json& value, const JsonLayout& layout = {});

}  // namespace ddprun

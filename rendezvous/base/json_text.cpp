#include "rendezvous/base/json_text.h"

#include <nlohmann/json.hpp>

namespace ddprun {

nlohmann::json parse_json(std::string_view text) {
  return nlohmann::json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
}

std::string json_text(const nlohmann::json& value, const JsonLayout& layout) {
  return value.dump(layout.indent, ' ', layout.ascii, nlohmann::json::error_handler_t::replace);
}

std::string json_text(const nlohmann::ordered_json& value, const JsonLayout& layout) {
  return value.dump(layout.indent, ' ', layout.ascii, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace ddprun

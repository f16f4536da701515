// Lists of OpenTelemetry's environment variables: "key1=value1,key2=value%202", for headers and attributes. Pure.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun::agent {

constexpr std::size_t kOtelListMax = 16 << 10;
using OtelPairs = std::vector<std::pair<std::string, std::string>>;

// As W3C's Baggage has it: blanks around words are left out, and values are percent-encoded. Empty: it is no such list.
std::optional<OtelPairs> parse_otel_list(std::string_view text);

}  // namespace ddprun::agent

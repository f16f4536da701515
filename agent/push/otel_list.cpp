#include "agent/push/otel_list.h"

#include <algorithm>
#include <charconv>

#include "agent/http/http_syntax.h"

namespace ddprun::agent {
namespace {

std::optional<std::string> decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    unsigned char byte = 0;
    const std::string_view digits = text.substr(i + 1, 2);
    if (digits.size() < 2 || std::from_chars(digits.data(), digits.data() + 2, byte, 16).ptr != digits.data() + 2)
      return {};
    out += static_cast<char>(byte);
    i += 2;
  }
  return out;
}

}  // namespace

std::optional<OtelPairs> parse_otel_list(std::string_view text) {
  if (text.size() > kOtelListMax) return {};
  OtelPairs out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(','), text.size());
    const std::string_view member = without_padding(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (member.empty()) continue;
    const std::size_t equals = member.find('=');
    if (equals == member.npos) return {};
    const std::string name(without_padding(member.substr(0, equals)));
    auto value = decoded(without_padding(member.substr(equals + 1)));
    if (!is_token(name) || !value || !is_field_value(*value)) return {};
    out.emplace_back(name, std::move(*value));
  }
  return out;
}

}  // namespace ddprun::agent

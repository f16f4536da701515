#include "trainer/ddp/group/init_method.h"

#include <algorithm>
#include <charconv>

namespace ddprun {
namespace {

constexpr std::size_t kRanksNamed = 8;

InitMethod parse_address(const std::string& text, const std::string& authority) {
  const auto colon = authority.rfind(':');
  std::string host = authority.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  std::uint16_t port = 0;
  const char* end = authority.data() + authority.size();
  if (colon != std::string::npos && !host.empty()) {
    const auto [stop, error] = std::from_chars(authority.data() + colon + 1, end, port);
    if (error == std::errc() && stop == end && port > 0) return AtAddress{host, port};
  }
  return "the init method '" + text + "' must be tcp://host:port, with a port from 1 to 65535.";
}

}  // namespace

InitMethod parse_init_method(const std::string& text) {
  const auto after = [&](const std::string& scheme) { return text.substr(scheme.size()); };
  if (text.empty() || text == "env://") return FromEnvironment{};
  if (text.starts_with("tcp://")) return parse_address(text, after("tcp://"));
  if (text.starts_with("file:///") && !text.ends_with('/')) return InFile{after("file://")};
  if (text.starts_with("file://"))
    return "the init method '" + text + "' must be file:// and the absolute path of a file, as in file:///shared/meet.";
  return "the init method '" + text + "' is not known: it must be env://, tcp://host:port or file:///path.";
}

std::string name_ranks(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  const std::size_t named = ranks.size() > kRanksNamed + 1 ? kRanksNamed : ranks.size();
  for (std::size_t i = 0; i < named; ++i) {
    if (i > 0) text += i + 1 == ranks.size() ? " and " : ", ";
    text += std::to_string(ranks[i]);
  }
  return named == ranks.size() ? text : text + " and " + std::to_string(ranks.size() - named) + " more";
}

std::string format_duration(std::chrono::milliseconds time) {
  const auto count = time.count();
  return count % 1000 == 0 ? std::to_string(count / 1000) + " s" : std::to_string(count) + " ms";
}

}  // namespace ddprun

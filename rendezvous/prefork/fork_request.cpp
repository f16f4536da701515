#include "rendezvous/prefork/fork_request.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace ddprun {
namespace {

constexpr std::string_view kRequestVersion = "1";

std::string joined(const std::vector<int>& numbers) {
  std::string out;
  for (const int number : numbers) out += (out.empty() ? "" : ",") + std::to_string(number);
  return out;
}

std::optional<int> number(std::string_view text) {
  int out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(out) : std::nullopt;
}

std::optional<std::vector<int>> numbers(std::string_view text) {
  std::vector<int> out;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    const auto one = number(text.substr(0, comma));
    if (!one) return {};
    out.push_back(*one);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return out;
}

}  // namespace

std::string to_text(const ForkRequest& request) {
  std::vector<std::string> fields{std::string(kRequestVersion),
                                  std::to_string(request.agent),
                                  request.foreground_group ? std::to_string(*request.foreground_group) : "",
                                  joined(request.numbers),
                                  joined(request.cpus),
                                  joined(request.memory_nodes),
                                  std::to_string(request.argv.size())};
  fields.insert(fields.end(), request.argv.begin(), request.argv.end());
  fields.insert(fields.end(), request.environment.begin(), request.environment.end());
  std::string out;
  for (const std::string& field : fields) (out += field) += '\0';
  return out;
}

std::optional<ForkRequest> parse_fork_request(std::string_view text) {
  std::vector<std::string> fields;
  for (std::size_t end = 0; (end = text.find('\0')) != text.npos; text.remove_prefix(end + 1))
    fields.emplace_back(text.substr(0, end));
  constexpr std::size_t kFixed = 7;
  if (!text.empty() || fields.size() < kFixed || fields[0] != kRequestVersion) return {};
  const auto agent = number(fields[1]), group = number(fields[2]), count = number(fields[6]);
  auto descriptors = numbers(fields[3]), cpus = numbers(fields[4]), nodes = numbers(fields[5]);
  if (!agent || !count || !descriptors || !cpus || !nodes || (!group && !fields[2].empty())) return {};
  if (*count < 0 || static_cast<std::size_t>(*count) > fields.size() - kFixed) return {};
  ForkRequest out{*agent, group, std::move(*descriptors), std::move(*cpus), std::move(*nodes), {}, {}};
  const auto arguments = fields.begin() + kFixed, environment = arguments + *count;
  out.argv.assign(arguments, environment);
  out.environment.assign(environment, fields.end());
  return out;
}

}  // namespace ddprun

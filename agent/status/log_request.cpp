#include "agent/status/log_request.h"

#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "rendezvous/base/json_text.h"

namespace ddprun::agent {
namespace {

using nlohmann::json;

constexpr int kNumberMax = 1 << 24;

std::string word_at(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

std::optional<std::uint64_t> size_at(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number_unsigned() ? std::optional(found->get<std::uint64_t>())
                                                              : std::nullopt;
}

int count_at(const json& object, const char* name) {
  const std::uint64_t value = size_at(object, name).value_or(0);
  return value <= kNumberMax ? static_cast<int>(value) : 0;
}

bool flag_at(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_boolean() && found->get<bool>();
}

json position_json(const LogPosition& position) {
  json out{{"agent", position.agent}, {"local_rank", position.local_rank}, {"kept", position.kept}};
  if (position.out) out["out"] = {position.out->file, position.out->offset};
  if (position.err) out["err"] = {position.err->file, position.err->offset};
  return out;
}

std::optional<FilePosition> file_at(const json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_array() || found->size() != 2) return {};
  const json &file = (*found)[0], &offset = (*found)[1];
  if (!file.is_number_unsigned() || !offset.is_number_unsigned()) return {};
  return FilePosition{file.get<std::uint64_t>(), offset.get<std::uint64_t>()};
}

LogPosition position_at(const json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_object()) return {};
  return {word_at(*found, "agent"), count_at(*found, "local_rank"), size_at(*found, "kept").value_or(0),
          file_at(*found, "out"), file_at(*found, "err")};
}

}  // namespace

std::string log_line(const LogRequest& request) {
  return kAskLog +
         json_text(json{{"rank", request.rank}, {"waits", request.waits}, {"from", position_json(request.from)}});
}

std::optional<LogRequest> parse_log_request(const std::string& line) {
  const std::string_view prefix = kAskLog;
  if (!line.starts_with(prefix)) return {};
  const json object = parse_json(std::string_view(line).substr(prefix.size()));
  if (!object.is_object() || size_at(object, "rank").value_or(kNumberMax) >= kNumberMax) return {};
  return LogRequest{count_at(object, "rank"), flag_at(object, "waits"), position_at(object, "from")};
}

std::string to_text(const LogAnswer& answer) {
  json parts = json::array();
  std::string bytes;
  for (const LogPart& part : answer.parts) {
    parts.push_back({{"stream", part.stream}, {"size", part.bytes.size()}, {"left_out", part.left_out}});
    bytes += part.bytes;
  }
  return json_text(json{{"problem", answer.problem},
                        {"passes", answer.passes},
                        {"host", answer.host},
                        {"round", answer.round},
                        {"more", answer.more},
                        {"next", position_json(answer.next)},
                        {"parts", std::move(parts)}}) +
         "\n" + bytes;
}

std::optional<LogAnswer> parse_log_answer(const std::string& text) {
  const std::size_t end = text.find('\n');
  const json object = parse_json(std::string_view(text).substr(0, end));
  if (end == text.npos || !object.is_object()) return {};
  LogAnswer out{word_at(object, "problem"), flag_at(object, "passes"), word_at(object, "host"),
                count_at(object, "round"),  flag_at(object, "more"),   position_at(object, "next")};
  std::size_t at = end + 1;
  const auto parts = object.find("parts");
  if (parts == object.end() || !parts->is_array()) return out;
  for (const json& part : *parts) {
    if (!part.is_object()) return {};
    const std::uint64_t size = size_at(part, "size").value_or(0);
    if (size > text.size() - at) return {};
    out.parts.push_back({word_at(part, "stream"), text.substr(at, size), size_at(part, "left_out").value_or(0)});
    at += size;
  }
  return out;
}

}  // namespace ddprun::agent

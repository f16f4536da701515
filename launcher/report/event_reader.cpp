#include "launcher/report/event_reader.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "rendezvous/base/json_text.h"

namespace ddprun::launcher {
namespace {

using nlohmann::json;

constexpr std::size_t kProblemsMax = 10;
constexpr double kLongestMs = 1e12;                // 30 years
constexpr std::int64_t kTimestampMax = 1LL << 42;  // in the year 2109

struct BadEvent : std::runtime_error {
  using std::runtime_error::runtime_error;
};

const json& member(const json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end()) throw BadEvent(std::string("it has no '") + name + "'");
  return *found;
}

std::string text_of(const json& object, const char* name) {
  const json& value = member(object, name);
  if (!value.is_string()) throw BadEvent(std::string("its '") + name + "' is no string");
  return value.get<std::string>();
}

std::int64_t number_of(const json& object, const char* name, std::int64_t most) {
  const json& value = member(object, name);
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > static_cast<std::uint64_t>(most))
    throw BadEvent(std::string("its '") + name + "' is no number from 0 to " + std::to_string(most));
  return value.get<std::int64_t>();
}

std::optional<int> small_number(const json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || found->is_null()) return {};
  return static_cast<int>(number_of(object, name, INT32_MAX));
}

Duration from_ms(double ms) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double, std::milli>(ms));
}

std::optional<double> valid_ms(const std::string& text) {
  double out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || end != text.data() + text.size() || !(out >= 0 && out <= kLongestMs)) return {};
  return out;
}

std::optional<std::uint64_t> valid_number(const std::string& text) {
  std::uint64_t out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return out;
}

std::optional<double> valid_real(const std::string& text) {
  double out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(out)) return {};
  return out;
}

// A loss may be "nan" or "inf": it is then not known.
void check_progress(const LoggedEvent& event) {
  if (event.state != "PROGRESS") return;
  if (!event.number("step")) throw BadEvent("its 'step' is no number");
  const auto rate = event.more.find("steps_per_second");
  if (rate != event.more.end() && valid_real(rate->second).value_or(-1) < 0)
    throw BadEvent("its 'steps_per_second' is no number");
}

void add_more(const json& metadata, LoggedEvent& event) {
  for (const auto& [key, value] : metadata.items())
    if (value.is_string()) event.more.emplace(key, value.get<std::string>());
  for (const auto& [key, value] : event.more)
    if (key.ends_with("_ms") && !valid_ms(value)) throw BadEvent("its '" + key + "' is no time in milliseconds");
  for (const char* key : {"steps", "first_step", "last_step"})
    if (const auto found = event.more.find(key); found != event.more.end() && !valid_number(found->second))
      throw BadEvent(std::string("its '") + key + "' is no number");
}

LoggedEvent event_of(const json& line) {
  if (!line.is_object()) throw BadEvent("it is no JSON object");
  const json& metadata = member(line, "metadata");
  if (!metadata.is_object()) throw BadEvent("its 'metadata' is no object");
  LoggedEvent out{.at = std::chrono::milliseconds(number_of(line, "timestamp", kTimestampMax)),
                  .of_worker = text_of(line, "source") == "WORKER",
                  .run_id = text_of(metadata, "run_id"),
                  .state = text_of(metadata, "state")};
  out.round = static_cast<int>(number_of(metadata, "round", INT32_MAX));
  out.group_rank = small_number(metadata, "group_rank");
  out.rank = small_number(metadata, "global_rank");
  out.role_world_size = small_number(metadata, "role_world_size");
  out.nodes = small_number(metadata, "group_world_size").value_or(0);
  if (const auto error = metadata.find("raw_error"); error != metadata.end() && error->is_string())
    out.error = error->get<std::string>();
  if (const auto took = metadata.find("duration_ms"); took != metadata.end() && !took->is_null()) {
    const double ms = took->is_number() ? took->get<double>() : -1;
    if (!(ms >= 0 && ms <= kLongestMs)) throw BadEvent("its 'duration_ms' is no time in milliseconds");
    out.duration = from_ms(ms);
  }
  add_more(metadata, out);
  check_progress(out);
  return out;
}

}  // namespace

Duration LoggedEvent::time(const std::string& field) const {
  const auto found = more.find(field);
  return found == more.end() ? Duration::zero() : from_ms(valid_ms(found->second).value_or(0));
}

std::optional<std::uint64_t> LoggedEvent::number(const std::string& field) const {
  const auto found = more.find(field);
  return found == more.end() ? std::nullopt : valid_number(found->second);
}

std::optional<double> LoggedEvent::real(const std::string& field) const {
  const auto found = more.find(field);
  return found == more.end() ? std::nullopt : valid_real(found->second);
}

EventFile read_events(std::string_view text) {
  EventFile out;
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    const bool last = end == std::string_view::npos;
    text.remove_prefix(last ? text.size() : end + 1);
    if (line.empty()) continue;
    const json parsed = parse_json(line);
    if (parsed.is_discarded() && last) {
      out.torn = true;
      continue;
    }
    try {
      if (parsed.is_discarded()) throw BadEvent("it is not JSON");
      out.events.push_back(event_of(parsed));
    } catch (const BadEvent& bad) {
      if (out.problems.size() < kProblemsMax)
        out.problems.push_back("line " + std::to_string(number) + " is no event of ddprun: " + bad.what());
    }
  }
  std::stable_sort(out.events.begin(), out.events.end(), [](const auto& a, const auto& b) { return a.at < b.at; });
  return out;
}

}  // namespace ddprun::launcher

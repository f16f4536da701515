#include "launcher/values.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <csignal>
#include <limits>

#include "agent/process/exit_status.h"
#include "rendezvous/base/spelling.h"

namespace ddprun {
namespace {

constexpr double kDayS = 86'400, kDurationMaxS = 366 * kDayS;  // a year's job; beyond it a typo
constexpr double kBytesMax = 1e18;                             // far above any disk, far below an overflow
constexpr int kPortMax = 65'535;

// What a job may be asked to handle; the rest are faults, the kernel's own, or of the terminal's job control.
constexpr int kHandled[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGXCPU, SIGPWR};

const std::vector<std::string> kTimeoutKeys = {
    "join_timeout",        "last_call_timeout",      "close_timeout", "heartbeat_timeout",
    "keep_alive_interval", "keep_alive_max_attempt", "read_timeout",  "timeout"};
const std::vector<std::string> kOtherKeys = {"is_host", "store_type", "rank"};

std::string quoted(std::string_view text) { return "'" + std::string(text) + "'"; }

std::string trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t"), last = text.find_last_not_of(" \t");
  return first == std::string_view::npos ? "" : std::string(text.substr(first, last - first + 1));
}

// --rdzv-conf='a=1' in a list of arguments, where no shell takes the quotes away.
std::string without_quotes(const std::string& text) {
  const bool quoted = text.size() > 1 && text.front() == text.back() && (text.front() == '\'' || text.front() == '"');
  return quoted ? trimmed(std::string_view(text).substr(1, text.size() - 2)) : text;
}

bool one_of(const std::string& word, const std::vector<std::string>& words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

template <class Number>
std::optional<Number> number(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

// "1.5G" → 1.5 and "G". A negative or endless number is none.
std::optional<std::pair<double, std::string>> number_and_unit(std::string_view text) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  const auto value = number<double>(text.substr(0, digits));
  if (!value || !std::isfinite(*value)) return {};
  return std::pair{*value, std::string(text.substr(digits))};
}

std::optional<double> seconds_of(const std::string& unit) {
  const std::pair<const char*, double> units[] = {{"", 1},   {"s", 1},      {"ms", 1e-3},
                                                  {"m", 60}, {"h", 3'600.}, {"d", kDayS}};
  for (const auto& [name, seconds] : units)
    if (unit == name) return seconds;
  return {};
}

std::optional<double> bytes_of(std::string unit) {
  if (unit.ends_with("iB")) unit.resize(unit.size() - 2);
  if (unit.ends_with("B")) unit.pop_back();
  const std::pair<const char*, double> units[] = {{"", 1},        {"K", 1 << 10}, {"k", 1 << 10},
                                                  {"M", 1 << 20}, {"G", 1 << 30}, {"T", 1.0 * (1ULL << 40)}};
  for (const auto& [name, bytes] : units)
    if (unit == name) return bytes;
  return {};
}

std::vector<std::string> handled_names() {
  std::vector<std::string> names;
  for (const int signal : kHandled) names.push_back(signal_name(signal));
  return names;
}

int signal_number(const std::string& word) {
  for (const int signal : kHandled)
    if (const std::string name = signal_name(signal); word == name || "SIG" + word == name) return signal;
  return 0;
}

bool host_letters(std::string_view host) {
  return !host.empty() && std::all_of(host.begin(), host.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '.' || c == '-' || c == '_' || c == ':' || c == '%';
  });
}

std::string rdzv_value_problem(const std::string& key, const std::string& value) {
  const auto takes = [&](const char* what) { return key + " takes " + what + ", not " + quoted(value); };
  if (key == "is_host") return std::holds_alternative<Wrong>(read_flag(value)) ? takes("true or false") : "";
  if (key == "store_type") return value == "tcp" || value == "file" ? "" : takes("tcp or file");
  const auto whole = number<int>(value);
  if (key == "rank") return whole && *whole >= 0 ? "" : takes("a whole number from 0 up");
  if (whole && *whole > 0) return "";
  return takes(key == "keep_alive_max_attempt" ? "a whole number from 1 up" : "whole seconds from 1 up");
}

std::string rdzv_item_problem(const std::string& key, const std::string& value, bool has_value) {
  std::vector<std::string> known = kTimeoutKeys;
  known.insert(known.end(), kOtherKeys.begin(), kOtherKeys.end());
  if (key.empty()) return "it takes KEY=VALUE,KEY=VALUE";
  if (!one_of(key, known)) {
    const std::string near = nearest(key, known);
    return "there is no key " + quoted(key) +
           (near.empty() ? ", only " + listed(known, "and") : " (did you mean " + near + "?)");
  }
  if (!has_value || value.empty()) return key + " has no value: write " + key + "=VALUE";
  return rdzv_value_problem(key, value);
}

std::string joined(const std::vector<std::string>& parts, const char* between) {
  std::string out;
  for (const std::string& part : parts) out += (out.empty() ? "" : between) + part;
  return out;
}

}  // namespace

std::string nonsense(const std::string& subject, const std::string& text, const std::string& complaint) {
  const std::string known = quoted(text), none_of = "'' is none of ";
  std::string sentence = subject + (text.empty() ? " is empty" : " is " + known);
  if (text.empty() && complaint.starts_with(none_of))
    sentence += "; it takes " + complaint.substr(none_of.size());
  else if (complaint.starts_with(known + " is "))
    sentence += ", which is " + complaint.substr(known.size() + 4);
  else
    sentence += "; " + complaint;
  return sentence.ends_with('?') ? sentence : sentence + ".";
}

Read<bool> read_flag(const std::string& text) {
  const std::string word = upper_case(text);
  if (one_of(word, {"1", "TRUE", "YES", "T", "Y", "ON"})) return true;
  if (one_of(word, {"0", "FALSE", "NO", "F", "N", "OFF"})) return false;
  return Wrong{"it takes 1 or 0, true or false, yes or no"};
}

Read<int> read_whole_number(const std::string& text, int min, int max) {
  const auto value = number<int>(text);
  if (value && min <= *value && *value <= max) return *value;
  const std::string limit = max == std::numeric_limits<int>::max() ? " up" : " to " + std::to_string(max);
  return Wrong{"it takes a whole number from " + std::to_string(min) + limit};
}

Read<Duration> read_duration(const std::string& text) {
  if (const auto parts = number_and_unit(text))
    if (const auto unit = seconds_of(parts->second); unit && parts->first * *unit <= kDurationMaxS)
      return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(parts->first * *unit));
  return Wrong{"it takes a time such as 25 (seconds), 2.5, 500ms, 90s, 15m, 2h or 1d, at most a year"};
}

Read<std::uint64_t> read_byte_size(const std::string& text) {
  if (const auto parts = number_and_unit(text))
    if (const auto unit = bytes_of(parts->second); unit && parts->first * *unit <= kBytesMax)
      return static_cast<std::uint64_t>(parts->first * *unit);
  return Wrong{"it takes a size in bytes such as 500K, 100M or 2G, or 0 for no limit"};
}

Read<std::vector<int>> read_signals(const std::string& text) {
  std::vector<int> signals;
  std::vector<std::string> complaints;
  for (const std::string& part : split(text, ',')) {
    const std::string word = upper_case(trimmed(part));
    const int signal = signal_number(word);
    if (signal == 0)
      complaints.push_back(quoted(trimmed(part)) + " is none of " + listed(handled_names()) + "." +
                           did_you_mean(word.starts_with("SIG") ? word : "SIG" + word, handled_names()));
    else if (std::find(signals.begin(), signals.end(), signal) == signals.end())
      signals.push_back(signal);
  }
  if (complaints.empty()) return signals;
  std::string all = joined(complaints, " ");
  if (all.ends_with('.')) all.pop_back();
  return Wrong{all};
}

Read<std::string> read_host(const std::string& text) {
  std::string host = text;
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  const auto colons = std::count(host.begin(), host.end(), ':');
  if (colons == 1)
    return Wrong{"it takes a host alone; the port is an option of its own: --master-port=" +
                 host.substr(host.find(':') + 1)};
  if (!host_letters(host)) return Wrong{"it takes a host's name or address, such as node7, 10.0.0.4 or [fd00::1]"};
  return host;
}

Read<Endpoint> read_endpoint(const std::string& text) {
  static const Wrong takes{"it takes HOST or HOST:PORT with a port up to 65535, IPv6 in brackets: [fd00::1]:29400"};
  const bool bracketed = text.starts_with('[');
  const std::size_t host_end = bracketed ? text.find(']') : text.find(':');
  if (bracketed && host_end == std::string::npos) return takes;
  Endpoint endpoint{bracketed ? text.substr(1, host_end - 1) : text.substr(0, host_end)};
  const std::string rest = host_end == std::string::npos ? "" : text.substr(host_end + (bracketed ? 1 : 0));
  if (!host_letters(endpoint.host)) return takes;
  if (rest.empty()) return endpoint;
  if (rest.front() != ':') return takes;
  endpoint.port = number<int>(std::string_view(rest).substr(1));
  if (!endpoint.port || *endpoint.port < 0 || *endpoint.port > kPortMax) return takes;
  return endpoint;
}

Read<PortRange> read_port_range(const std::string& text) {
  if (text.empty()) return PortRange{};
  const std::size_t dash = text.find('-');
  const auto first = number<int>(text.substr(0, dash));
  const auto last = dash == std::string::npos ? first : number<int>(text.substr(dash + 1));
  if (!first || !last || *first < 1 || *last < *first || *last > kPortMax)
    return Wrong{"it takes the first port and the last, from 1 to 65535, such as 29600-29609"};
  return PortRange{static_cast<std::uint16_t>(*first), static_cast<std::uint16_t>(*last)};
}

Read<std::vector<std::string>> read_filters(const std::string& text) {
  std::vector<std::string> filters;
  if (text.empty()) return filters;
  filters.emplace_back();
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool doubled = text.compare(i, 2, ",,") == 0;
    if (text[i] == ',' && !doubled)
      filters.emplace_back();
    else
      filters.back() += text[i];
    i += doubled;
  }
  if (std::find(filters.begin(), filters.end(), "") == filters.end()) return filters;
  return Wrong{"it takes texts between single commas, none of them empty; ,, is a comma in a text"};
}

Read<std::map<std::string, std::string>> read_rdzv_conf(const std::string& text) {
  std::map<std::string, std::string> conf;
  std::vector<std::string> complaints;
  const std::string items = without_quotes(trimmed(text));
  if (items.empty()) return conf;
  for (const std::string& item : split(items, ',')) {
    const std::size_t equals = item.find('=');
    const std::string key = trimmed(item.substr(0, equals));
    const std::string value = equals == std::string::npos ? "" : trimmed(item.substr(equals + 1));
    const std::string problem = rdzv_item_problem(key, value, equals != std::string::npos);
    if (!problem.empty() && !one_of(problem, complaints)) complaints.push_back(problem);
    conf[key] = value;
  }
  if (complaints.empty()) return conf;
  return Wrong{joined(complaints, "; ")};
}

Read<std::string> read_template(const std::string& text, const std::vector<std::string>& names) {
  for (std::size_t at = text.find("${"); at != std::string::npos; at = text.find("${", at + 2)) {
    const std::size_t end = text.find('}', at);
    if (end == std::string::npos) return Wrong{"the brace of " + quoted(text.substr(at)) + " is not closed"};
    const std::string name = text.substr(at + 2, end - at - 2);
    if (one_of(name, names)) continue;
    if (const std::string near = nearest(name, names); !near.empty())
      return Wrong{"there is no ${" + name + "}; did you mean ${" + near + "}?"};
  }
  return text;
}

std::string signal_names(const std::vector<int>& signals) {
  std::vector<std::string> names;
  for (const int signal : signals) names.push_back(signal_name(signal));
  return joined(names, ",");
}

}  // namespace ddprun

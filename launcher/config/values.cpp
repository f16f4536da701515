#include "launcher/config/values.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <csignal>
#include <limits>

#include "agent/http/http_url.h"
#include "agent/process/exit_status.h"
#include "launcher/config/etcd_settings.h"
#include "rendezvous/base/spelling.h"
#include "rendezvous/base/suggestion.h"
#include "rendezvous/peer/resolve.h"

namespace ddprun::launcher {
namespace {

using rendezvous::FailureClass, rendezvous::RestartLimit;
using settings::joined, settings::read_flag, settings::whole_text, settings::trimmed;

// Signals that a job may handle; the others are faults, reserved by the kernel, or for the terminal's job control.
constexpr int kHandled[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGXCPU, SIGPWR};

const std::vector<std::string> kTimeoutKeys = {
    "join_timeout",        "last_call_timeout",      "close_timeout", "heartbeat_timeout",
    "keep_alive_interval", "keep_alive_max_attempt", "read_timeout",  "timeout"};
const std::vector<std::string> kOtherKeys = {"is_host", "store_type", "rank"};

std::string in_quotes(std::string_view text) { return "'" + std::string(text) + "'"; }

// --rdzv-conf='a=1' in a list of arguments, where no shell removes the quotes.
std::string without_quotes(const std::string& text) {
  const bool quoted = text.size() > 1 && text.front() == text.back() && (text.front() == '\'' || text.front() == '"');
  return quoted ? trimmed(std::string_view(text).substr(1, text.size() - 2)) : text;
}

bool one_of(const std::string& word, const std::vector<std::string>& words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::vector<std::string> handled_names() {
  std::vector<std::string> names;
  for (const int signal : kHandled) names.push_back(agent::signal_name(signal));
  return names;
}

int signal_number(const std::string& word) {
  for (const int signal : kHandled)
    if (const std::string name = agent::signal_name(signal); word == name || "SIG" + word == name) return signal;
  return 0;
}

bool host_letters(std::string_view host) {
  return !host.empty() && std::all_of(host.begin(), host.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '.' || c == '-' || c == '_' || c == ':' || c == '%';
  });
}

// The C library would take it for an address, as 29500 for 0.0.115.60.
bool is_number(std::string_view host) {
  return std::all_of(host.begin(), host.end(), [](unsigned char c) { return std::isdigit(c); });
}

std::string rdzv_value_problem(const std::string& key, const std::string& value) {
  const auto takes = [&](const char* what) { return key + " takes " + what + ", not " + in_quotes(value); };
  if (key == "is_host") return std::holds_alternative<Wrong>(read_flag(value)) ? takes("true or false") : "";
  if (one_of(key, {std::begin(kEtcdKeys), std::end(kEtcdKeys)})) return etcd_value_problem(key, value);
  if (key == "store_type") return value == "tcp" || value == "file" ? "" : takes("tcp or file");
  const auto whole = whole_text<int>(value);
  if (key == "rank") return whole && *whole >= 0 ? "" : takes("a whole number from 0 up");
  if (whole && *whole > 0) return "";
  return takes(key == "keep_alive_max_attempt" ? "a whole number from 1 up" : "whole seconds from 1 up");
}

// After "there is no such word": the one that was meant, or all there are.
std::string near_or_known(const std::string& word, const std::vector<std::string>& known) {
  const std::string near = nearest(word, known);
  return near.empty() ? ", only " + listed(known, "and") : " (did you mean '" + near + "'?)";
}

// As other programs name it, or mistyped; also the user's name of etcdctl, NAME:PASSWORD.
bool holds_password(const std::string& key, const std::string& value) {
  if (key == "user") return value.find(':') != value.npos;
  const std::string name = upper_case(key);
  return key != "password_file" && (name.find("PASS") != name.npos || name.find("PWD") != name.npos ||
                                    name.find("SECRET") != name.npos || distance(name, "PASSWORD") <= 2);
}

std::string rdzv_item_problem(const std::string& key, const std::string& value, bool has_value) {
  std::vector<std::string> known = kTimeoutKeys;
  known.insert(known.end(), kOtherKeys.begin(), kOtherKeys.end());
  known.insert(known.end(), std::begin(kEtcdKeys), std::end(kEtcdKeys));
  if (key.empty()) return "it takes KEY=VALUE,KEY=VALUE";
  if (!one_of(key, known)) return "there is no key " + in_quotes(key) + near_or_known(key, known);
  if (!has_value || value.empty()) return key + " has no value: write " + key + "=VALUE";
  return rdzv_value_problem(key, value);
}

std::string set_machine_limit(agent::MachineLimits& limits, const std::string& key, const std::string& value) {
  if (key == "disk") {
    const auto bytes = settings::read_byte_size(value);
    if (std::holds_alternative<Wrong>(bytes)) return "disk takes a size: disk=10G";
    limits.disk_bytes = std::get<std::uint64_t>(bytes);
  } else if (key == "clock") {
    const auto time = settings::read_duration(value);
    if (std::holds_alternative<Wrong>(time)) return "clock takes a time: clock=1s";
    limits.clock = std::get<Duration>(time);
  } else {
    const auto percent = whole_text<int>(value.ends_with('%') ? value.substr(0, value.size() - 1) : value);
    if (!percent || *percent < 0 || *percent > 100) return "gpu-memory takes a percentage: gpu-memory=90%";
    limits.gpu_memory_percent = percent;
  }
  return {};
}

}  // namespace

Read<RestartLimit> read_restart_limit(const std::string& text) {
  const Wrong wrong{"it takes a number, or as many in a time: 5, \"5 in 1h\""};
  const std::size_t in = text.find(" in ");
  const auto most = whole_text<int>(trimmed(std::string_view(text).substr(0, in)));
  if (!most || *most < 0) return wrong;
  if (in == text.npos) return RestartLimit{*most, {}};
  std::string within = text.substr(in + 4);
  std::erase(within, ' ');
  const auto time = settings::read_duration(within);
  if (std::holds_alternative<Wrong>(time) || std::get<Duration>(time) <= Duration::zero()) return wrong;
  if (std::get<Duration>(time) > rendezvous::kLimitWindowMax) return Wrong{"it takes a time of at most 7d"};
  if (*most > rendezvous::kLimitInWindowMax)
    return Wrong{"it takes at most " + std::to_string(rendezvous::kLimitInWindowMax) + " in a time"};
  return RestartLimit{*most, std::get<Duration>(time)};
}

Read<agent::MachineLimits> read_machine_limits(const std::string& text) {
  const std::vector<std::string> known = {"disk", "gpu-memory", "clock"};
  agent::MachineLimits out;
  for (const std::string& item : trimmed(text).empty() ? std::vector<std::string>() : split(text, ',')) {
    const std::size_t equals = item.find('=');
    const std::string key = with_dashes(trimmed(std::string_view(item).substr(0, equals)));
    const std::string value = equals == item.npos ? "" : trimmed(std::string_view(item).substr(equals + 1));
    if (!one_of(key, known)) return Wrong{"there is no limit " + in_quotes(key) + near_or_known(key, known)};
    if (std::string problem = set_machine_limit(out, key, value); !problem.empty()) return Wrong{problem};
  }
  return out;
}

Read<std::map<FailureClass, RestartLimit>> read_restart_limits(const std::string& text) {
  std::map<FailureClass, RestartLimit> out;
  const std::vector<std::string> known = rendezvous::classes_for_rules();
  for (const std::string& item : trimmed(text).empty() ? std::vector<std::string>() : split(text, ',')) {
    const std::size_t equals = item.find('=');
    const std::string name = with_dashes(trimmed(std::string_view(item).substr(0, equals)));
    if (!one_of(name, known)) return Wrong{"there is no class " + in_quotes(name) + near_or_known(name, known)};
    auto limit = read_restart_limit(equals == item.npos ? "" : trimmed(std::string_view(item).substr(equals + 1)));
    if (const auto* wrong = std::get_if<Wrong>(&limit)) return Wrong{in_quotes(name) + ": " + wrong->complaint};
    if (!out.emplace(*rendezvous::failure_class(name), std::get<RestartLimit>(limit)).second)
      return Wrong{in_quotes(name) + " is named twice"};
  }
  return out;
}

namespace {

Read<agent::HangLimit> read_hang_limit(const std::string& text) {
  if (text == "auto") return agent::HangLimit{};
  if (text == "off") return agent::HangLimit{.off = true};
  const auto time = settings::read_duration(text);
  if (const auto* wrong = std::get_if<Wrong>(&time))
    return Wrong{in_quotes(text) + " is neither auto nor off, and as a time: " + wrong->complaint};
  if (std::get<Duration>(time) <= Duration::zero()) return Wrong{"it takes a time above 0, auto, or off"};
  return agent::HangLimit{.time = std::get<Duration>(time)};
}

std::vector<std::string> watched_activities() {
  std::vector<std::string> out;
  for (const rendezvous::NamedActivity& known : rendezvous::kActivities)
    if (known.activity != rendezvous::Activity::ended) out.emplace_back(known.name);
  return out;
}

}  // namespace

Read<agent::HangLimits> read_hang_limits(const std::string& text) {
  agent::HangLimits out;
  const std::vector<std::string> known = watched_activities();
  for (const std::string& item : split(text, ',')) {
    const std::size_t equals = item.find('=');
    const std::string name = equals == item.npos ? "" : trimmed(std::string_view(item).substr(0, equals));
    if (equals != item.npos && !one_of(name, known))
      return Wrong{"there is no phase " + in_quotes(name) + near_or_known(name, known)};
    auto limit = read_hang_limit(trimmed(std::string_view(item).substr(equals == item.npos ? 0 : equals + 1)));
    if (const auto* wrong = std::get_if<Wrong>(&limit)) return *wrong;
    if (equals == item.npos)
      out.all = std::get<agent::HangLimit>(limit);
    else
      out.named[*rendezvous::activity(name)] = std::get<agent::HangLimit>(limit);
  }
  return out;
}

Read<WorkerCount> read_worker_count(const std::string& text) {
  if (text == "cpu") return WorkerCount{WorkerCount::cpus};
  if (text == "gpu" || text == "xpu") return WorkerCount{WorkerCount::gpus};  // xpu: torchrun's name for Intel's
  if (text == "auto") return WorkerCount{WorkerCount::automatic};
  if (const auto workers = whole_text<int>(text); workers && *workers > 0)
    return WorkerCount{WorkerCount::number, *workers};
  const std::string hint = did_you_mean(text, {"cpu", "gpu", "auto"});
  return Wrong{"it takes a number from 1 up, cpu, gpu, or auto" + (hint.empty() ? "" : "." + hint)};
}

Read<NodeCounts> read_node_counts(const std::string& text) {
  const std::size_t colon = text.find(':');
  const auto least = whole_text<int>(text.substr(0, colon));
  const auto most = colon == std::string::npos ? least : whole_text<int>(text.substr(colon + 1));
  if (!least || !most || *least < 1 || *most < *least)
    return Wrong{in_quotes(text) + " is neither a number of nodes nor MIN:MAX"};
  return NodeCounts{*least, *most};
}

Read<std::vector<int>> read_signals(const std::string& text) {
  std::vector<int> signals;
  std::vector<std::string> complaints;
  for (const std::string& part : split(text, ',')) {
    const std::string word = upper_case(trimmed(part));
    const int signal = signal_number(word);
    if (signal == 0)
      complaints.push_back(in_quotes(trimmed(part)) + " is not one of " + listed(handled_names()) + "." +
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
  if (colons == 1 || (is_number(host) && !host.empty()))
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
  if (is_number(endpoint.host))
    return Wrong{"it lacks a host: HOST:" + endpoint.host + ", and localhost:" + endpoint.host +
                 " for agents of one machine"};
  if (rest.empty()) return endpoint;
  if (rest.front() != ':') return takes;
  endpoint.port = whole_text<int>(std::string_view(rest).substr(1));
  if (!endpoint.port || *endpoint.port < 0 || *endpoint.port > kPortMax) return takes;
  return endpoint;
}

std::string take_scheme(std::string& place) {
  for (const std::string scheme : {"http", "https"}) {
    if (!place.starts_with(scheme + "://")) continue;
    place.erase(0, scheme.size() + 3);
    if (place.ends_with('/')) place.pop_back();
    return scheme;
  }
  return {};
}

Read<Endpoint> read_listen_place(const std::string& text) {
  static const Wrong takes{
      "it takes PORT or ADDRESS:PORT with an address in numbers and a port up to 65535, such as 9100, "
      "0.0.0.0:9100 or [::1]:9100"};
  const bool no_host = text.find(':') == std::string::npos || text.starts_with(':');
  const std::string port = text.substr(text.starts_with(':') ? 1 : 0);
  const auto read = read_endpoint(no_host ? "127.0.0.1:" + port : text);
  const Endpoint* given = std::get_if<Endpoint>(&read);
  if (!given || !given->port) return takes;
  const std::string host = given->host == "localhost" ? "127.0.0.1" : given->host;
  if (rendezvous::numeric_addresses(host).empty()) return takes;
  return Endpoint{host, given->port};
}

Read<std::string> read_otlp(const std::string& text) {
  if (text.empty() || text == "env") return text;
  const auto url = agent::parse_url(text);
  if (const auto* complaint = std::get_if<std::string>(&url))
    return Wrong{complaint->starts_with("it takes") ? *complaint + ", or env" : *complaint};
  return text;
}

Read<rendezvous::PortRange> read_port_range(const std::string& text) {
  if (text.empty()) return rendezvous::PortRange{};
  const std::size_t dash = text.find('-');
  const auto first = whole_text<int>(text.substr(0, dash));
  const auto last = dash == std::string::npos ? first : whole_text<int>(text.substr(dash + 1));
  if (!first || !last || *first < 1 || *last < *first || *last > kPortMax)
    return Wrong{"it takes the first port and the last, from 1 to 65535, such as 29600-29609"};
  return rendezvous::PortRange{static_cast<std::uint16_t>(*first), static_cast<std::uint16_t>(*last)};
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
  return Wrong{"it takes texts separated by single commas, none of them empty; ,, is a comma in a text"};
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
    if (holds_password(key, value))
      return Wrong{
          "holds a password, which others could read: write it into a file, and pass user=NAME,password_file=FILE"};
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
    if (end == std::string::npos) return Wrong{"the brace of " + in_quotes(text.substr(at)) + " is not closed"};
    const std::string name = text.substr(at + 2, end - at - 2);
    if (one_of(name, names)) continue;
    if (const std::string near = nearest(name, names); !near.empty())
      return Wrong{"there is no ${" + name + "}." + did_you_mean("${" + near + "}")};
  }
  return text;
}

std::string signal_names(const std::vector<int>& signals) {
  std::vector<std::string> names;
  for (const int signal : signals) names.push_back(agent::signal_name(signal));
  return joined(names, ",");
}

}  // namespace ddprun::launcher

#include "agent/status/page_data.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>
#include <vector>

#include "agent/status/status_json.h"
#include "rendezvous/base/json_text.h"

namespace ddprun::agent {
namespace {

using nlohmann::json;

constexpr std::array kPagePhases = {"load", "compute", "wait"};

json slowest_in(const json& ranks, const std::string& phase) {
  std::vector<std::pair<double, const json*>> times;
  for (const json& rank : ranks) times.emplace_back(rank.value(phase + "_seconds", 0.0), &rank);
  std::sort(times.begin(), times.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  if (times.empty() || times.front().first <= 0) return {};
  return {{"phase", phase},
          {"rank", times.front().second->at("rank")},
          {"node", times.front().second->at("node")},
          {"seconds", times.front().first},
          {"median_seconds", times[times.size() / 2].first}};
}

// Those that matter first: that hold up others, are slow, stopped, or behind.
json most_important(const json& ranks, const std::set<int>& named) {
  std::vector<const json*> all;
  for (const json& rank : ranks) all.push_back(&rank);
  const auto order = [&](const json* rank) {
    const int number = rank->value("rank", 0);
    return std::pair(!named.contains(number) && rank->value("trouble", "").empty(), number);
  };
  std::sort(all.begin(), all.end(), [&](const json* a, const json* b) { return order(a) < order(b); });
  all.resize(kPageRanksMax);
  std::sort(all.begin(), all.end(),
            [](const json* a, const json* b) { return a->value("rank", 0) < b->value("rank", 0); });
  json out = json::array();
  for (const json* rank : all) out.push_back(*rank);
  return out;
}

char strip_code(const json& rank) {
  const std::string trouble = rank.value("trouble", ""), activity = rank.value("activity", "");
  if (trouble.starts_with("slow")) return 's';
  if (trouble == "holds up") return 'h';
  if (!trouble.empty()) return 'x';
  if (activity == "wait") return 'w';
  if (activity == "save") return 'v';
  if (activity == "evaluate" || activity == "start") return 'e';
  return activity == "ended" || activity == "end" ? '-' : '.';
}

json strip_of(const json& ranks) {
  json out = json::array();
  for (const json& rank : ranks) {
    const json node = rank.value("group_rank", json());
    if (out.empty() || out.back()["group_rank"] != node)
      out.push_back(
          {{"node", rank.value("node", "")}, {"group_rank", node}, {"first", rank.value("rank", 0)}, {"codes", ""}});
    out.back()["codes"].get_ref<std::string&>() += strip_code(rank);
  }
  return out;
}

}  // namespace

json page_status(json status) {
  json& ranks = status["ranks"];
  if (!ranks.is_array()) ranks = json::array();
  status["ranks_total"] = ranks.size();
  status["slowest"] = json::array();
  for (const char* phase : kPagePhases)
    if (json slowest = slowest_in(ranks, phase); !slowest.is_null()) status["slowest"].push_back(std::move(slowest));
  if (ranks.size() <= kPageRanksMax) return status;
  status["strip"] = strip_of(ranks);
  std::set<int> named;
  const json awaited = status.value("waits_for", json::object());
  for (const json& rank : awaited.value("ranks", json::array())) named.insert(rank.get<int>());
  for (const json& slow : status.value("slow_ranks", json::array())) named.insert(slow.value("rank", 0));
  ranks = most_important(ranks, named);
  return status;
}

std::string page_key(json status) {
  for (const char* age : {"run_seconds", "state_seconds", "snapshot_age_seconds", "backoff_seconds", "slowest"})
    status.erase(age);
  if (const auto time = status.find("time"); time != status.end() && time->is_object())
    *time = time->value("useful_share", json());
  if (const auto awaited = status.find("waits_for"); awaited != status.end() && awaited->is_object())
    awaited->erase("text");
  if (const auto progress = status.find("progress"); progress != status.end() && progress->is_object())
    progress->erase("seconds_left");
  if (const auto failure = status.find("last_failure"); failure != status.end() && failure->is_object())
    failure->erase("age_seconds");
  const auto without_age = [](json& of) {
    if (const auto line = of.find("last_output"); line != of.end() && line->is_object()) line->erase("age_seconds");
  };
  without_age(status);
  for (json& rank : status["ranks"]) without_age(rank);
  for (json& rank : status["ranks"])
    for (const char* age : {"age_seconds", "snapshot_age_seconds", "wait_seconds", "memory_bytes", "processors"})
      rank.erase(age);
  return json_text(status);
}

std::string whole_event(const json& status, const JobHistory& history, UnixTime now) {
  json out = to_json(history);
  out["now"] = now.count();
  out["status"] = status;
  return server_sent("whole", json_text(out));
}

std::string change_event(const json& status, const JobHistory& history, UnixTime now, bool rounds) {
  json out{{"now", now.count()}, {"status", status}, {"sample", to_json(sample_of(status, now))}};
  if (rounds) out["rounds"] = to_json(history.rounds());
  if (rounds) out["marks"] = to_json(history.marks());
  return server_sent("change", json_text(out));
}

std::string ended_event(const std::string& text, const JobCondition& condition) {
  return server_sent("ended", json_text(json{{"text", text}, {"condition", to_json(condition)}}));
}

std::string server_sent(const std::string& name, const std::string& text) {
  std::string out = "event: " + name + "\n";
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find_first_of("\r\n", at), text.size());
    out += "data: " + text.substr(at, end - at) + "\n";
    at = end + (text.compare(end, 2, "\r\n") == 0 ? 2 : 1);
  }
  return out + "\n";
}

}  // namespace ddprun::agent

#include "launcher/view/status_text.h"

#include <algorithm>
#include <functional>
#include <map>
#include <vector>

#include "launcher/view/shown_condition.h"
#include "launcher/view/table.h"
#include "launcher/view/units.h"
#include "rendezvous/base/json_text.h"
#include "rendezvous/base/loss_text.h"
#include "rendezvous/base/spelling.h"

namespace ddprun::launcher {
namespace {

using nlohmann::json;

constexpr double kPercent = 100, kShownShare = 0.01;
constexpr std::size_t kRanksShown = 32, kNodesNamed = 8;

void append(std::string& list, const std::string& item) { list += (list.empty() ? "" : ", ") + item; }

std::string number_text(const json& value) { return value.is_null() ? "-" : json_text(value); }

// "2 active (n1, n2), 1 excluded (n4: 3 failures there in 1 h)"
std::string nodes_text(const json& nodes) {
  const std::vector<std::string> order{"active", "done", "ready", "spare", "stopping", "excluded", "unfit", "lost"};
  std::string out;
  for (const std::string& state : order) {
    std::string names;
    std::size_t count = 0;
    for (const json& node : nodes) {
      if (node["state"] != state || ++count > kNodesNamed) continue;
      const std::string reason = node["reason"];
      append(names, node["name"].get<std::string>() + (reason.empty() ? "" : ": " + reason));
    }
    if (count == 0) continue;
    append(out, std::to_string(count) + " " + state + " (" + names + (count > kNodesNamed ? ", ..." : "") + ")");
  }
  return out;
}

bool all_are_silent(const json& ranks) {
  return !ranks.empty() &&
         std::all_of(ranks.begin(), ranks.end(), [](const json& rank) { return rank.value("silent", false); });
}

std::string no_step_text(const json& live) {
  return all_are_silent(live["ranks"]) ? "not told; of a Python script ddprun --watch=see tells steps and hangs" : "";
}

std::string snapshot_text(const json& live) {
  if (live["snapshot_step"].is_null()) return "";
  return "of step " + json_text(live["snapshot_step"]) + ", " + duration_text(live["snapshot_age_seconds"]) + " ago";
}

// "2 of 3 (1 crash, 1 hang); besides 1 lost node"
std::string restarts_text(const json& restarts) {
  const std::map<std::string, std::string> free{
      {"lost_node", "lost node"}, {"preemption", "preemption"}, {"resize", "resize"}};
  std::string charged, besides;
  for (const auto& [cause, count] : restarts["by_cause"].items()) {
    if (count == 0) continue;
    const auto known = free.find(cause);
    std::string name = known == free.end() ? cause : known->second;
    std::replace(name.begin(), name.end(), '_', ' ');
    append(known == free.end() ? charged : besides, json_text(count) + " " + name);
  }
  std::string out = json_text(restarts["charged"]) + " of " + json_text(restarts["limit"]);
  if (!charged.empty()) out += " (" + charged + ")";
  return besides.empty() ? out : out + "; besides " + besides;
}

// "93 % of 1 h 2 min; 4 % start, 3 % lost work"
std::string time_text(const json& time) {
  const double total = time["total"];
  std::multimap<double, std::string, std::greater<>> losses;
  for (const auto& [kind, spent] : time.items())
    if (kind != "total" && kind != "useful_share" && kind != "productive" && spent >= kShownShare * total)
      losses.emplace(spent.get<double>(), kind);
  std::string lost;
  for (auto& [spent, kind] : losses) {
    std::replace(kind.begin(), kind.end(), '_', ' ');
    append(lost, formatted("%.0f %% ", kPercent * spent / total) + kind);
  }
  const json& share = time["useful_share"];
  const std::string out =
      (share.is_number() ? formatted("%.0f %%", kPercent * share.get<double>()) : "-") + " of " + duration_text(total);
  return lost.empty() ? out : out + "; " + lost;
}

std::string slow_text(const json& slow) {
  std::string out;
  for (const json& rank : slow)
    append(out, "rank " + json_text(rank["rank"]) + (rank["phase"] == "load" ? " loads " : " computes ") +
                    formatted("%.1fx", rank["ratio"].get<double>()) + " slower than the median");
  return out;
}

std::string does_text(const json& rank) {
  std::string out = rank["activity"];
  if (const std::string collective = rank["collective"]; !collective.empty()) out += " (" + collective + ")";
  if (rank["paused"] == true) return out + ", paused";
  if (rank["stopped"] == true) return out + ", stopped by a signal";
  const std::string held = rank["held"];
  return held.empty() ? out : out + ", held by the kernel in " + held;
}

std::string silent_text(const json& names) {
  std::string out;
  for (const json& name : names) append(out, name);
  return out;
}

bool on_several_nodes(const json& ranks) {
  return std::any_of(ranks.begin(), ranks.end(), [&](const json& rank) { return rank["node"] != ranks[0]["node"]; });
}

// Of whom the line is, where that is not clear.
std::string writer_text(const json& line, const json& ranks) {
  std::string out;
  if (ranks.size() > 1 && line["rank"].is_number()) out += " rank " + json_text(line["rank"]);
  if (on_several_nodes(ranks)) out += " on " + line["node"].get<std::string>();
  return out.empty() ? "" : "," + out;
}

std::string age_and_line(const json& line, const std::string& writer) {
  return duration_text(line["age_seconds"]) + " ago" + writer + ": " + line["line"].get<std::string>();
}

// Of what this version or an older one has answered.
json last_output_of(const json& of) { return of.value("last_output", json()); }

// With one line the job's has been enough.
bool shows_lines(const json& live) {
  const auto known = [](const json& rank) { return last_output_of(rank).is_object(); };
  return live["step"].is_null() && std::count_if(live["ranks"].begin(), live["ranks"].end(), known) > 1;
}

// DOES and the line "slow" have said it of agents that do not tell it.
bool is_in_trouble(const json& rank) { return !rank.value("trouble", "").empty(); }

// Of many ranks those in trouble go first.
std::vector<std::reference_wrapper<const json>> shown_ranks(const json& ranks) {
  std::vector<std::reference_wrapper<const json>> out(ranks.begin(), ranks.end());
  if (out.size() <= kRanksShown) return out;
  std::stable_partition(out.begin(), out.end(), is_in_trouble);
  out.erase(out.begin() + kRanksShown, out.end());
  return out;
}

std::string cut_lines(const std::string& text, std::size_t columns) {
  std::string out;
  for (const std::string& line : split(text.substr(0, text.size() - 1), '\n'))
    out += terminal_line(line, columns) + "\n";
  return out;
}

}  // namespace

std::string last_line_text(const json& live) {
  const json line = last_output_of(live);
  if (!line.is_object() || !live["step"].is_null()) return {};
  return age_and_line(line, writer_text(line, live["ranks"]));
}

std::string step_text(const json& live) {
  if (const json step = live.value("step", json()); !step.is_number()) return "";
  std::string out = json_text(live["step"]);
  if (const json total = live.value("total_steps", json()); total.is_number()) out += " of " + json_text(total);
  if (const json progress = live.value("progress", json()); progress.is_object())
    append(out, progress["text"].get<std::string>());
  if (const json rate = live.value("steps_per_second", json()); rate.is_number())
    append(out, formatted("%.3g steps/s", rate.get<double>()));
  if (const json loss = live.value("loss", json()); loss.is_number())
    append(out, "loss " + loss_text(loss.get<double>()));
  return out;
}

void add_live(const json& live, KeyLines& lines, std::size_t columns) {
  lines.add("state", state_text(live));
  if (live.contains("nodes")) lines.add("nodes", nodes_text(live["nodes"]));
  lines.add("activity", live["activity"]);
  const std::string steps = step_text(live);
  lines.add("step", steps.empty() ? no_step_text(live) : steps);
  lines.add_cut("last line", last_line_text(live), columns);
  lines.add("snapshot", snapshot_text(live));
  if (live.contains("restarts")) lines.add("restarts", restarts_text(live["restarts"]));
  if (live.contains("time") && live["time"].is_object()) lines.add("useful", time_text(live["time"]));
  lines.add("waits for", live["waits_for"]["text"]);
  lines.add("failure", last_failure_text(live));
  if (live.contains("slow_ranks")) lines.add("slow", slow_text(live["slow_ranks"]));
  lines.add("no answer", silent_text(live["silent_nodes"]));
}

std::string ranks_text(const json& live, std::size_t columns) {
  const json& ranks = live["ranks"];
  if (ranks.empty()) return "";
  std::vector<std::vector<std::string>> rows{{"RANK", "NODE", "DOES", "SINCE", "STEP", "CPU", "MEMORY"}};
  const bool with_lines = shows_lines(live);
  const bool with_trouble = std::any_of(ranks.begin(), ranks.end(), is_in_trouble);
  if (with_trouble) rows[0].push_back("TROUBLE");
  if (with_lines) rows[0].push_back("LAST LINE");  // at the end, where it may be cut
  for (const json& rank : shown_ranks(ranks)) {
    rows.push_back({json_text(rank["rank"]), rank["node"], does_text(rank), duration_text(rank["age_seconds"]),
                    number_text(rank["step"]), processors_text(rank), bytes_text(rank["memory_bytes"])});
    const json line = last_output_of(rank);
    if (with_trouble) rows.back().push_back(rank.value("trouble", ""));
    if (with_lines) rows.back().push_back(line.is_object() ? age_and_line(line, "") : "-");
  }
  std::string out = table_text(rows);
  if (with_lines) out = cut_lines(out, columns);
  if (ranks.size() > kRanksShown)
    out += "... and " + std::to_string(ranks.size() - kRanksShown) + " more: ddprun status --json\n";
  return out;
}

}  // namespace ddprun::launcher

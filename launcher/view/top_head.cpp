#include "launcher/view/top_head.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "launcher/view/charts.h"
#include "launcher/view/shown_condition.h"
#include "launcher/view/status_text.h"
#include "launcher/view/units.h"
#include "rendezvous/base/json_text.h"
#include "rendezvous/base/loss_text.h"
#include "rendezvous/base/spelling.h"

namespace ddprun::launcher {
namespace {

using nlohmann::json;

constexpr std::size_t kSentenceLines = 3, kBarMin = 8, kBarMax = 40;
constexpr double kAllPercent = 100;
constexpr const char* kBetween = "  ";

json head_field(const json& live, const char* name) { return live.value(name, json()); }

void add_lines(std::vector<StyledLine>& out, const std::vector<StyledLine>& more) {
  out.insert(out.end(), more.begin(), more.end());
}

std::vector<StyledLine> condition_lines(const json& live, const std::string& problem, std::size_t columns) {
  const std::string run_id = live["run_id"].get<std::string>() + kBetween;
  const Span sentence =
      problem.empty() ? Span{condition_text(live), shown_condition(live).style} : Span{problem, Style::attention};
  return wrapped_sentence({run_id, Style::strong}, sentence, columns, kSentenceLines);
}

// "step 4127 of 9000  ######------  45.8 %, 16 min left  5.3 steps/s  loss 0.2130"; the bar takes what is left of a
// line.
StyledLine progress_line(const json& live, std::size_t columns, bool unicode) {
  if (!head_field(live, "step").is_number()) return {};
  const json total = head_field(live, "total_steps"), progress = head_field(live, "progress");
  const json rate = head_field(live, "steps_per_second"), loss = head_field(live, "loss");
  StyledLine out("step ", Style::dim);
  out.add(json_text(live["step"]) + (total.is_number() ? " of " + json_text(total) : ""), Style::strong);
  StyledLine rest;
  if (progress.is_object()) rest.add(kBetween).add(progress.value("text", ""), Style::strong);
  if (rate.is_number())
    rest.add(kBetween).add(formatted("%.3g steps/s", rate.get<double>()), rate > 0 ? Style::plain : Style::attention);
  if (loss.is_number()) rest.add(kBetween).add("loss ", Style::dim).add(loss_text(loss.get<double>()));
  const std::size_t used = out.width() + rest.width() + 2;
  if (const std::size_t room = columns > used ? columns - used : 0; progress.is_object() && room >= kBarMin) {
    const double share = progress.value("done_share", progress.value("percent", 0.0) / kAllPercent);
    const ProgressBar bar = progress_bar(share, std::min(room, kBarMax), unicode);
    out.add(kBetween).add(bar.done, shown_condition(live).style).add(bar.left, Style::dim);
  }
  return out.add(rest);
}

std::string nodes_by_place(const json& live) {
  std::map<std::string, int> places;
  for (const json& node : live.value("nodes", json::array())) ++places[node["state"].get<std::string>()];
  std::string out;
  for (const auto& [place, count] : places) out += (out.empty() ? "" : ", ") + std::to_string(count) + " " + place;
  return out;
}

// "round 3  nodes 2 active  ranks 4  restarts 1 of 3  useful 93 %  saved 5.2 s ago"; what does not fit is left out.
StyledLine facts_line(const json& live, std::size_t columns) {
  StyledLine out;
  const auto add = [&](const char* name, const std::string& value) {
    StyledLine part(out.width() > 0 ? kBetween : "");
    part.add(name, Style::dim).add(" ").add(value);
    if (!value.empty() && out.width() + part.width() <= columns) out.add(part);
  };
  if (const json round = head_field(live, "round"); round.is_number() && round > 0) add("round", json_text(round));
  add("nodes", nodes_by_place(live));
  add("ranks", std::to_string(live["ranks"].size()));
  if (live.contains("restarts"))
    add("restarts", json_text(live["restarts"]["charged"]) + " of " + json_text(live["restarts"]["limit"]));
  if (const json time = head_field(live, "time"); time.is_object() && head_field(time, "useful_share").is_number())
    add("useful", formatted("%.0f %%", kAllPercent * time["useful_share"].get<double>()));
  if (const json age = head_field(live, "snapshot_age_seconds"); age.is_number())
    add("saved", duration_text(age) + " ago");
  return out;
}

struct Remark {
  const char* label;
  std::string text;
  Style style;
};

// Whom the job waits for; why it was restarted; what it has printed. The first one that there is, or all.
std::vector<StyledLine> remark_lines(const json& live, std::size_t columns, bool all) {
  const Remark remarks[] = {{"waits for: ", live["waits_for"]["text"], Style::attention},
                            {"last failure: ", last_failure_text(live), Style::bad},
                            {"last line: ", last_line_text(live), Style::plain}};
  std::vector<StyledLine> out;
  for (const auto& [label, text, style] : remarks) {
    if (text.empty() || (!all && !out.empty())) continue;
    add_lines(out, wrapped_sentence({label, Style::dim}, {text, style}, columns, kSentenceLines));
  }
  if (out.empty()) out.emplace_back();
  return out;
}

}  // namespace

std::vector<StyledLine> top_head(const json& live, const std::string& problem, std::size_t columns, bool tall,
                                 bool unicode) {
  if (!live.is_object())
    return wrapped_sentence({}, {problem.empty() ? "asking the job ..." : problem}, columns, kSentenceLines);
  std::vector<StyledLine> out = condition_lines(live, problem, columns);
  if (const StyledLine progress = progress_line(live, columns, unicode); progress.width() > 0)
    out.push_back(progress.cut(columns));
  out.push_back(facts_line(live, columns));
  add_lines(out, remark_lines(live, columns, tall));
  return out;
}

}  // namespace ddprun::launcher

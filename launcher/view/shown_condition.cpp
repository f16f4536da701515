#include "launcher/view/shown_condition.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>

#include "launcher/view/units.h"
#include "rendezvous/base/json_text.h"

namespace ddprun::launcher {
namespace {

using nlohmann::json;

struct Trouble {
  std::string_view begins;
  Style style;
};
// The worst first.
constexpr Trouble kTroubles[] = {
    {"stopped", Style::bad},      {"held", Style::bad},   {"holds up", Style::attention}, {"slow", Style::attention},
    {"behind", Style::attention}, {"", Style::attention}, {"paused", Style::busy}};
constexpr int kNoTrouble = std::size(kTroubles), kUnknownTrouble = 5;

Style style_of_level(const std::string& level) {
  if (level == "good") return Style::good;
  if (level == "busy") return Style::busy;
  if (level == "bad") return Style::bad;
  return level == "over" ? Style::dim : Style::attention;
}

const Trouble& trouble_named(const std::string& trouble) {
  const auto* found = std::find_if(std::begin(kTroubles), std::end(kTroubles), [&](const Trouble& one) {
    return !one.begins.empty() && trouble.starts_with(one.begins);
  });
  return found == std::end(kTroubles) ? kTroubles[kUnknownTrouble] : *found;
}

// Of an agent that tells no condition.
ShownCondition condition_by_state(const json& live) {
  const std::string state = live.value("state", "unknown");
  if (state == "running") {
    const bool is_well = live.value("slow_ranks", json::array()).empty() &&
                         live.value("waits_for", json::object()).value("text", "").empty();
    return {state, is_well ? Style::good : Style::attention};
  }
  if (state == "over") return {state, Style::dim, true};
  return {state, state == "starting" ? Style::busy : Style::attention};
}

}  // namespace

ShownCondition shown_condition(const json& live) {
  const json told = live.value("condition", json());
  if (!told.is_object()) return condition_by_state(live);
  const std::string level = told.value("level", "");
  return {told.value("text", ""), style_of_level(level), level == "over" || level == "bad"};
}

std::string condition_text(const json& live) {
  const std::string state = live.value("state", "unknown"), problem = live.value("problem", "");
  if (state == "unknown" && !problem.empty()) return problem;
  const ShownCondition condition = shown_condition(live);
  const json seconds = live.value("state_seconds", json());
  if (condition.is_over || condition.text != state || !seconds.is_number()) return condition.text;
  return condition.text + " for " + duration_text(seconds);
}

std::string state_text(const json& live) {
  std::string out = condition_text(live);
  if (live.value("state", "unknown") == "unknown" || shown_condition(live).is_over) return out;
  if (const json round = live.value("round", json()); round > 0) out += ", round " + json_text(round);
  if (const json backoff = live.value("backoff_seconds", json()); backoff > 0)
    out += ", the next one in " + duration_text(backoff);
  return out;
}

std::string last_failure_text(const json& live) {
  const json failure = live.value("last_failure", json());
  if (!failure.is_object()) return {};
  return failure.value("text", "") + ", " + duration_text(failure.value("age_seconds", 0.0)) + " ago";
}

std::string trouble_text(const json& live, const json& rank) {
  if (const auto told = rank.find("trouble"); told != rank.end())
    return told->is_string() ? told->get<std::string>() : "";
  if (rank["paused"] == true) return "paused";
  if (rank["stopped"] == true) return "stopped";
  if (!rank["held"].get<std::string>().empty()) return "held by the kernel";
  for (const json& one : live.value("slow_ranks", json::array()))
    if (one["rank"] == rank["rank"]) return formatted("slow %.1fx", one["ratio"].get<double>());
  const json awaited = live.value("waits_for", json::object()).value("ranks", json::array());
  return std::find(awaited.begin(), awaited.end(), rank["rank"]) == awaited.end() ? "" : "holds up";
}

int trouble_order(const std::string& trouble) {
  return trouble.empty() ? kNoTrouble : static_cast<int>(&trouble_named(trouble) - std::begin(kTroubles));
}

Style style_of_trouble(const std::string& trouble) {
  return trouble.empty() ? Style::plain : trouble_named(trouble).style;
}

}  // namespace ddprun::launcher

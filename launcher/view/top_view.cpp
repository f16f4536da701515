#include "launcher/view/top_view.h"

#include <algorithm>
#include <utility>

#include "launcher/view/status_text.h"
#include "launcher/view/terminal_line.h"
#include "launcher/view/units.h"
#include "rendezvous/base/json_text.h"
#include "rendezvous/base/spelling.h"

namespace ddprun::launcher {
namespace {

using nlohmann::json;

constexpr double kAll = 100;  // percent
constexpr std::size_t kKeysRows = 1, kOpenRanksMax = 16;
constexpr const char* kHeadings = "RANK    DOES             STEP   LAG   SINCE   MEMORY  LOAD  COMP  WAIT  SLOW";

std::string activity_text(const json& rank) {
  if (rank["paused"] == true) return "paused";
  if (rank["stopped"] == true) return "stopped";
  if (!rank["held"].get<std::string>().empty()) return "held by kernel";
  const std::string activity = rank["activity"], collective = rank["collective"];
  if (activity == "runs") return "runs " + processors_text(rank) + " CPU";
  return collective.empty() ? activity : activity + " " + visible(collective);
}

std::string share_text(double share) { return formatted("%3.0f%%", share); }

}  // namespace

void TopView::take(json live, double seconds) {
  live_ = std::move(live);
  problem_.clear();
  last_step_ = 0;
  std::map<int, Times> times;
  shares_.clear();
  for (const json& rank : live_["ranks"]) {
    if (rank["step"].is_number()) last_step_ = std::max(last_step_, rank["step"].get<std::int64_t>());
    const int number = rank["rank"];
    const Times now{rank["load_seconds"], rank["compute_seconds"], rank["wait_seconds"], seconds};
    times[number] = now;
    const auto before = times_.find(number);
    if (before == times_.end() || now.compute < before->second.compute) continue;  // a new round
    const Times& last = before->second;
    const double all = now.load - last.load + now.compute - last.compute + now.wait - last.wait;
    if (all <= 0) continue;
    shares_[number] = {kAll * (now.load - last.load) / all, kAll * (now.compute - last.compute) / all,
                       kAll * (now.wait - last.wait) / all};
  }
  times_ = std::move(times);
  selected_ = std::min(selected_, std::max<std::size_t>(rows().size(), 1) - 1);
}

void TopView::show_text(const std::string& title, const std::string& text) {
  std::string lines = title + "\n\n" + text;
  std::replace(lines.begin(), lines.end(), '\t', ' ');
  text_ = split(lines, '\n');
  text_top_ = 0;
  shows_text_ = true;
}

std::vector<const json*> TopView::ranks_of(const Node& node) const {
  std::vector<const json*> out;
  for (const json& rank : live_["ranks"])
    if (rank["group_rank"] == node.group_rank) out.push_back(&rank);
  const auto lag = [](const json& rank) { return rank["step"].is_number() ? rank["step"].get<std::int64_t>() : 0; };
  std::stable_sort(out.begin(), out.end(), [&](const json* a, const json* b) {
    switch (order_) {
      case Order::lag:
        return lag(*a) < lag(*b);
      case Order::memory:
        return (*a)["memory_bytes"] > (*b)["memory_bytes"];
      case Order::share: {
        const auto share = [this](const json& rank) {
          const auto known = shares_.find(rank["rank"].get<int>());
          return known == shares_.end() ? 0 : known->second.load + known->second.compute;
        };
        return share(*a) > share(*b);
      }
      case Order::rank:
        break;
    }
    return (*a)["rank"] < (*b)["rank"];
  });
  return out;
}

// A job with many ranks begins with closed nodes.
bool TopView::is_closed(const Node& node) const {
  const bool many = live_["ranks"].size() > kOpenRanksMax && live_.contains("nodes") && live_["nodes"].size() > 1;
  return many != toggled_.contains(node.key);
}

// Of the coordinator; without one, those of which ranks are known.
std::vector<TopView::Node> TopView::nodes() const {
  std::vector<Node> out;
  for (const json& node : live_.value("nodes", json::array())) {
    const int group_rank = node["group_rank"].is_number() ? node["group_rank"].get<int>() : -1;
    const std::string key = group_rank < 0 ? "other " + std::to_string(out.size()) : std::to_string(group_rank);
    out.push_back({key, node["name"], node["state"], node["reason"], group_rank});
  }
  if (!out.empty()) return out;
  for (const json& rank : live_["ranks"])
    if (const int group_rank = rank["group_rank"]; out.empty() || out.back().group_rank != group_rank)
      out.push_back({.key = std::to_string(group_rank), .name = rank["node"], .group_rank = group_rank});
  return out;
}

std::vector<TopView::Row> TopView::rows() const {
  std::vector<Row> out;
  if (!live_.is_object()) return out;
  for (const Node& node : nodes()) {
    out.push_back({node});
    if (is_closed(node)) continue;
    for (const json* rank : ranks_of(node)) out.push_back({node, rank});
  }
  return out;
}

std::string TopView::node_text(const Node& node) const {
  const auto ranks = ranks_of(node);
  double memory = 0;
  std::optional<std::int64_t> least;
  for (const json* rank : ranks) {
    memory += (*rank)["memory_bytes"].get<double>();
    if ((*rank)["step"].is_number()) least = std::min(least.value_or(last_step_), (*rank)["step"].get<std::int64_t>());
  }
  std::string out = (ranks.empty() ? "  " : is_closed(node) ? "+ " : "- ") + node.name + "  " + node.state;
  if (!node.reason.empty()) out += ": " + node.reason;
  if (ranks.empty()) return out;
  out += "  " + std::to_string(ranks.size()) + (ranks.size() == 1 ? " rank" : " ranks");
  if (least) out += "  step " + std::to_string(*least);
  if (least && *least < last_step_) out += ", " + std::to_string(last_step_ - *least) + " behind";
  return out + "  " + bytes_text(memory);
}

std::string TopView::rank_text(const json& rank) const {
  const int number = rank["rank"];
  const bool has_step = rank["step"].is_number();
  const std::string step = has_step ? json_text(rank["step"]) : "-";
  const std::string lag = has_step ? std::to_string(last_step_ - rank["step"].get<std::int64_t>()) : "-";
  std::string load = "   -", compute = load, wait = load, slow;
  if (const auto share = shares_.find(number); share != shares_.end()) {
    load = share_text(share->second.load);
    compute = share_text(share->second.compute);
    wait = share_text(share->second.wait);
  }
  for (const json& one : live_.value("slow_ranks", json::array()))
    if (one["rank"] == number) slow = formatted("%.1fx", one["ratio"].get<double>());
  const std::string out =
      formatted("  %-5d %-14.14s %6s %5s %7s %8s  %4s  %4s  %4s  %4s", number, activity_text(rank).c_str(),
                step.c_str(), lag.c_str(), short_duration_text(rank["age_seconds"]).c_str(),
                bytes_text(rank["memory_bytes"].get<double>()).c_str(), load.c_str(), compute.c_str(), wait.c_str(),
                slow.c_str());
  return out.substr(0, out.find_last_not_of(' ') + 1);
}

std::string TopView::text_of(const Row& row, std::size_t columns) const {
  return terminal_line(row.rank ? rank_text(*row.rank) : node_text(row.node), columns);
}

std::string TopView::remark_text() const {
  const std::string text = live_["waits_for"]["text"];
  if (!text.empty()) return "waits for: " + text;
  const std::string line = last_line_text(live_);
  return line.empty() ? "" : "last line: " + line;
}

std::vector<std::string> TopView::head(std::size_t columns) const {
  if (!live_.is_object()) return {terminal_line(problem_.empty() ? "asking the job ..." : problem_, columns)};
  const auto field = [&](const char* name) { return live_.contains(name) ? live_[name] : json(); };
  const std::string state = live_["state"] == "unknown"
                                ? live_["problem"].get<std::string>()
                                : live_["state"].get<std::string>() + " for " + duration_text(live_["state_seconds"]);
  std::string first = live_["run_id"].get<std::string>() + "  " + (problem_.empty() ? state : problem_);
  if (field("round").is_number()) first += "  round " + json_text(live_["round"]);
  std::map<std::string, int> places;
  for (const json& node : live_.value("nodes", json::array())) ++places[node["state"].get<std::string>()];
  std::string second = "nodes:";
  for (const auto& [place, count] : places) second += " " + std::to_string(count) + " " + place;
  second += "  ranks: " + std::to_string(live_["ranks"].size());
  if (live_.contains("restarts"))
    second += "  restarts: " + json_text(live_["restarts"]["charged"]) + " of " + json_text(live_["restarts"]["limit"]);
  if (field("snapshot_age_seconds").is_number())
    second += "  snapshot: " + duration_text(live_["snapshot_age_seconds"]) + " ago";
  std::vector<std::string> out{terminal_line(first, columns)};
  if (const std::string steps = step_text(live_); !steps.empty())
    out.push_back(terminal_line("step: " + steps, columns));
  for (const std::string& line : {second, remark_text(), std::string(kHeadings)})
    out.push_back(terminal_line(line, columns));
  return out;
}

std::string TopView::keys_text() const {
  if (asks_about_drain_) return "drain " + drained_.name + ": its workers save, and leave it?   y: yes   others: no";
  if (shows_text_) return "up/down: scroll   Esc: back   q: quit";
  const char* const orders[] = {"rank", "steps behind", "memory", "own time"};
  return "j/k: move  Enter: open  s: sort (" + std::string(orders[static_cast<std::size_t>(order_)]) +
         ")  p: stacks  d: drain  q: quit";
}

std::size_t TopView::body_rows(Size size) const {
  const std::size_t used = (shows_text_ ? 0 : head(size.columns).size()) + kKeysRows;
  return size.rows > used ? size.rows - used : 0;
}

std::size_t TopView::line_count() const { return shows_text_ ? text_.size() : rows().size(); }

// Keeps what is selected in sight.
void TopView::move(long by, Size size) {
  const auto last = static_cast<long>(line_count()) - 1, page = static_cast<long>(body_rows(size));
  if (last < 0) return;
  if (shows_text_) {
    text_top_ =
        static_cast<std::size_t>(std::clamp(static_cast<long>(text_top_) + by, 0L, std::max(last - page + 1, 0L)));
    return;
  }
  selected_ = static_cast<std::size_t>(std::clamp(static_cast<long>(selected_) + by, 0L, last));
}

std::optional<int> TopView::selected_rank() const {
  const std::vector<Row> all = rows();
  if (selected_ >= all.size() || !all[selected_].rank) return {};
  return (*all[selected_].rank)["rank"].get<int>();
}

// What is selected may be another node when the answer comes.
void TopView::ask_about_drain() {
  const std::vector<Row> all = rows();
  if (shows_text_ || selected_ >= all.size()) return;
  const Node& node = all[selected_].node;
  drained_ = {node.name, node.group_rank < 0 ? node.name : std::to_string(node.group_rank)};
  asks_about_drain_ = true;
}

TopView::Wish TopView::on(Key key, Size size) {
  if (std::exchange(asks_about_drain_, false) && key != Key::quit) return key == Key::yes ? Wish::drain : Wish::nothing;
  const auto page = std::max<long>(static_cast<long>(body_rows(size)) - 1, 1);
  const auto all = static_cast<long>(line_count());
  switch (key) {
    case Key::up:
      move(-1, size);
      break;
    case Key::down:
      move(1, size);
      break;
    case Key::page_up:
      move(-page, size);
      break;
    case Key::page_down:
      move(page, size);
      break;
    case Key::home:
      move(-all, size);
      break;
    case Key::end:
      move(all, size);
      break;
    case Key::escape:
      shows_text_ = false;
      break;
    case Key::open: {
      const std::vector<Row> shown = rows();
      if (shows_text_ || selected_ >= shown.size()) break;
      const std::string node = shown[selected_].node.key;
      if (toggled_.erase(node) == 0) toggled_.insert(node);
      const std::vector<Row> now = rows();
      const auto own = std::find_if(now.begin(), now.end(), [&](const Row& row) { return row.node.key == node; });
      selected_ = static_cast<std::size_t>(own - now.begin());
      break;
    }
    case Key::sort:
      order_ = order_ == Order::share ? Order::rank : static_cast<Order>(static_cast<int>(order_) + 1);
      break;
    case Key::stacks:
      return shows_text_ ? Wish::nothing : Wish::stacks;
    case Key::drain:
      ask_about_drain();
      break;
    case Key::quit:
      return Wish::quit;
    case Key::yes:
    case Key::other:
      break;
  }
  return Wish::nothing;
}

TopView::Frame TopView::frame(Size size) const {
  Frame out;
  const std::size_t page = body_rows(size);
  if (shows_text_) {
    for (std::size_t i = text_top_; i < std::min(text_.size(), text_top_ + page); ++i)
      out.lines.push_back(terminal_line(text_[i], size.columns));
  } else {
    out.lines = head(size.columns);
    const std::vector<Row> all = rows();
    const std::size_t top = selected_ < page ? 0 : selected_ - page + 1;
    for (std::size_t i = top; i < std::min(all.size(), top + page); ++i) {
      if (i == selected_) out.selected = out.lines.size();
      out.lines.push_back(text_of(all[i], size.columns));
    }
  }
  out.lines.resize(size.rows > kKeysRows ? size.rows - kKeysRows : 0);
  out.lines.push_back(terminal_line(keys_text(), size.columns));
  return out;
}

std::string TopView::plain() const {
  constexpr std::size_t kWide = 400;
  std::string out;
  for (const std::string& line : head(kWide))
    if (!line.empty()) out += line + "\n";
  TopView open = *this;
  for (const Row& row : rows())
    if (is_closed(row.node) && open.toggled_.erase(row.node.key) == 0) open.toggled_.insert(row.node.key);
  for (const Row& row : open.rows()) out += open.text_of(row, kWide) + "\n";
  return out;
}

}  // namespace ddprun::launcher

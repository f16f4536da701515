#include "launcher/view/top_view.h"

#include <algorithm>
#include <map>
#include <utility>

#include "launcher/view/shown_condition.h"
#include "launcher/view/top_head.h"
#include "launcher/view/units.h"
#include "rendezvous/base/json_text.h"
#include "rendezvous/base/loss_text.h"
#include "rendezvous/base/spelling.h"

namespace ddprun::launcher {
namespace {

using nlohmann::json;

constexpr std::size_t kKeysRows = 1, kOpenRanksMax = 16, kNamesWidthMax = 24;
constexpr std::size_t kWideColumns = 120, kChartsColumns = 160, kChartsRows = 40;
constexpr int kBarCells = 20;

// What the columns of a rank's row are wide; 0: it is left out.
struct Widths {
  int rank = 4, does = 15, step = 6, lag = 4, since = 6, processors = 0, memory = 7, loss = 0;
};

Widths widths_for(std::size_t columns) {
  if (columns < kWideColumns) return {};
  return {6, 24, 9, 7, 8, 6, 9, columns < kChartsColumns ? 0 : 10};
}

std::string doing_text(const json& rank) {
  const std::string activity = rank["activity"], collective = rank["collective"];
  if (activity == "runs" && rank.contains("processors")) return "runs " + processors_text(rank) + " CPU";
  return collective.empty() ? activity : activity + " " + collective;
}

// Cells of one row, each as wide as its column. A number is never cut.
class Cells {
 public:
  explicit Cells(const std::string& begin) { line_.add(begin, Style::dim); }
  Cells& left(const StyledLine& text, int width) {
    if (width == 0) return *this;
    const StyledLine cell = text.cut(static_cast<std::size_t>(width));
    line_.add(cell).add(std::string(static_cast<std::size_t>(width) - cell.width() + 1, ' '));
    return *this;
  }
  Cells& right(const std::string& text, int width, Style style = Style::plain) {
    const std::size_t size = characters_in(text), columns = static_cast<std::size_t>(width);
    if (width > 0) line_.add(std::string(columns - std::min(columns, size), ' ')).add(text, style).add(" ");
    return *this;
  }
  StyledLine take() { return std::move(line_); }

 private:
  StyledLine line_ = {};
};

StyledLine headings(std::size_t columns) {
  const Widths widths = widths_for(columns);
  const Style style = Style::strong;
  StyledLine out = Cells("  ")
                       .left({"RANK", style}, widths.rank)
                       .left({"DOES", style}, widths.does)
                       .right("STEP", widths.step, style)
                       .right("LAG", widths.lag, style)
                       .right("SINCE", widths.since, style)
                       .right("CPU", widths.processors, style)
                       .right("MEMORY", widths.memory, style)
                       .right("LOSS", widths.loss, style)
                       .take();
  out.add("LOAD", Style::load).add(" ").add("COMPUTE", Style::compute).add(" ").add("WAIT", Style::wait);
  return out.add("    ").add("TROUBLE", style).cut(columns);
}

// At most seven characters.
std::string memory_text(double bytes) {
  constexpr double kGib = 1 << 30, kKilo = 1024;
  if (bytes < 10 * kGib) return bytes_text(bytes);
  return bytes < kKilo * kGib ? formatted("%.0f GiB", bytes / kGib) : formatted("%.1f TiB", bytes / kGib / kKilo);
}

// As far as a column's width goes, without half a word.
std::string short_trouble(const std::string& trouble, std::size_t room) {
  return characters_in(trouble) <= room ? trouble : trouble.substr(0, trouble.find(' '));
}

std::string lag_text(const std::optional<std::int64_t>& lag) { return lag ? std::to_string(*lag) : "-"; }
Style style_of_lag(const std::optional<std::int64_t>& lag) { return lag.value_or(0) > 0 ? Style::strong : Style::dim; }

}  // namespace

void TopView::take(json live, double seconds) {
  const std::vector<Row> before = rows();
  const bool had_one = selected_ > 0 && selected_ < before.size();
  const Node node = had_one ? before[selected_].node : Node{};
  const json rank = had_one && before[selected_].rank ? *before[selected_].rank : json();
  live_ = std::move(live);
  problem_.clear();
  last_step_ = 0;
  names_width_ = 0;
  troubles_.clear();
  worst_.clear();
  for (const json& one : live_["ranks"]) {
    if (one["step"].is_number()) last_step_ = std::max(last_step_, one["step"].get<std::int64_t>());
    names_width_ = std::max(names_width_, characters_in(one["node"].get<std::string>()));
    const std::string& trouble = troubles_[one["rank"].get<int>()] = trouble_text(live_, one);
    int& worst = worst_.emplace(one["group_rank"].get<int>(), trouble_order("")).first->second;
    worst = std::min(worst, trouble_order(trouble));
  }
  shares_.take(live_["ranks"], seconds);
  seen_.take(live_, seconds);
  if (had_one) select({node, rank.is_object() ? &rank : nullptr});
  selected_ = std::min(selected_, std::max<std::size_t>(rows().size(), 1) - 1);
}

// The same row, wherever it is now. The cursor on the first line stays there.
void TopView::select(const Row& row) {
  const std::vector<Row> all = rows();
  const auto same = std::find_if(all.begin(), all.end(), [&](const Row& one) {
    if (!row.rank || !one.rank) return !row.rank && !one.rank && one.node.key == row.node.key;
    return (*one.rank)["rank"] == (*row.rank)["rank"];
  });
  if (same != all.end()) selected_ = static_cast<std::size_t>(same - all.begin());
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
      case Order::trouble: {
        const int first = trouble_order(trouble_of(*a)), second = trouble_order(trouble_of(*b));
        if (first != second) return first < second;
        break;
      }
      case Order::lag:
        return lag(*a) < lag(*b);
      case Order::memory:
        return (*a)["memory_bytes"] > (*b)["memory_bytes"];
      case Order::share: {
        const auto share = [this](const json& rank) {
          const auto known = shares_.of(rank["rank"].get<int>());
          return known ? known->load + known->compute : 0;
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

const std::string& TopView::trouble_of(const json& rank) const { return troubles_.at(rank["rank"].get<int>()); }

// Of the coordinator; without one, those of which ranks are known. In the order of trouble, those with any go first.
std::vector<TopView::Node> TopView::nodes() const {
  std::vector<Node> out;
  for (const json& node : live_.value("nodes", json::array())) {
    const int group_rank = node["group_rank"].is_number() ? node["group_rank"].get<int>() : -1;
    const std::string key = group_rank < 0 ? "other " + std::to_string(out.size()) : std::to_string(group_rank);
    out.push_back({key, node["name"], node["state"], node["reason"], group_rank});
  }
  if (out.empty())
    for (const json& rank : live_["ranks"])
      if (const int group_rank = rank["group_rank"]; out.empty() || out.back().group_rank != group_rank)
        out.push_back({.key = std::to_string(group_rank), .name = rank["node"], .group_rank = group_rank});
  if (order_ != Order::trouble) return out;
  const auto worst = [this](const Node& node) {
    const auto known = worst_.find(node.group_rank);
    return known == worst_.end() ? trouble_order("") : known->second;
  };
  std::stable_sort(out.begin(), out.end(), [&](const Node& a, const Node& b) { return worst(a) < worst(b); });
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

// "1 stopped, 2 slow": which ranks it means is seen when the node is open. Where there is little room, of the worst.
StyledLine TopView::node_trouble(const std::vector<const json*>& ranks, std::size_t room) const {
  std::map<std::pair<int, std::string>, int> counts;
  for (const json* rank : ranks)
    if (const std::string& trouble = trouble_of(*rank); !trouble.empty())
      ++counts[{trouble_order(trouble), trouble.substr(0, trouble.find_first_of("0123456789") - 1)}];
  StyledLine out;
  for (const auto& [trouble, count] : counts) {
    const std::string number = (out.width() > 0 ? ", " : "") + std::to_string(count) + " ";
    const std::size_t used = out.width() + number.size();
    const std::string words = short_trouble(trouble.second, room > used ? room - used : 0);
    if (out.width() > 0 && used + characters_in(words) > room) break;
    out.add(number).add(words, style_of_trouble(trouble.second));
  }
  return out;
}

// Of a node whose ranks are known: their sum of memory, the least step, the longest silence, the mean of their bars.
TopView::Together TopView::together(const std::vector<const json*>& ranks) const {
  Together out;
  TimeShare sum;
  int known = 0;
  for (const json* rank : ranks) {
    out.memory += (*rank)["memory_bytes"].get<double>();
    out.age = std::max(out.age, (*rank)["age_seconds"].get<double>());
    if ((*rank)["step"].is_number())
      out.step = std::min(out.step.value_or(last_step_), (*rank)["step"].get<std::int64_t>());
    const auto share = shares_.of((*rank)["rank"].get<int>());
    if (!share) continue;
    ++known;
    sum = {sum.load + share->load, sum.compute + share->compute, sum.wait + share->wait};
  }
  if (known > 0) out.share = {sum.load / known, sum.compute / known, sum.wait / known};
  return out;
}

// The node's name and what fits beside it.
StyledLine TopView::node_name(const Node& node, std::size_t ranks, std::size_t room) const {
  StyledLine out(node.name, Style::strong);
  out.fill(std::min(names_width_, kNamesWidthMax));
  const StyledLine state("  " + node.state, node.state == "active" ? Style::plain : Style::busy);
  const StyledLine count("  " + std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks"));
  for (const StyledLine& more : {node.state.empty() ? StyledLine() : state, count})
    if (out.width() + more.width() <= room) out.add(more);
  return out;
}

StyledLine TopView::node_line(const Node& node, std::size_t columns) const {
  const auto ranks = ranks_of(node);
  if (ranks.empty()) {
    StyledLine out = StyledLine("  ").add(node.name, Style::strong).add("  " + node.state, Style::busy);
    return node.reason.empty() ? out : out.add(": " + node.reason);
  }
  const Together all = together(ranks);
  const Widths widths = widths_for(columns);
  const int room = widths.rank + 1 + widths.does;
  std::optional<std::int64_t> lag;
  if (all.step) lag = last_step_ - *all.step;
  Cells cells(is_closed(node) ? "+ " : "- ");
  cells.left(node_name(node, ranks.size(), static_cast<std::size_t>(room)), room)
      .right(all.step ? std::to_string(*all.step) : "-", widths.step)
      .right(lag_text(lag), widths.lag, style_of_lag(lag))
      .right(short_duration_text(all.age), widths.since)
      .right("", widths.processors)
      .right(memory_text(all.memory), widths.memory)
      .right("", widths.loss);
  StyledLine out = with_bar(cells.take(), is_closed(node) ? all.share : std::nullopt, is_closed(node));
  return out.add(node_trouble(ranks, columns > out.width() ? columns - out.width() : 0)).trimmed();
}

// `expected`: without a share there is a mark in its place.
StyledLine TopView::with_bar(StyledLine line, const std::optional<TimeShare>& share, bool expected) {
  const std::size_t begin = line.width();
  if (share)
    line.add(share_bar(*share, kBarCells));
  else if (expected)
    line.add("-", Style::dim);
  return line.fill(begin + kBarCells + 1);
}

StyledLine TopView::rank_line(const json& rank, std::size_t columns) const {
  const int number = rank["rank"];
  const bool has_step = rank["step"].is_number();
  std::optional<std::int64_t> lag;
  if (has_step) lag = last_step_ - rank["step"].get<std::int64_t>();
  const std::string& trouble = trouble_of(rank);
  const Widths widths = widths_for(columns);
  const json loss = rank.value("loss", json());
  Cells cells("  ");
  cells.left(std::to_string(number), widths.rank)
      .left(doing_text(rank), widths.does)
      .right(has_step ? json_text(rank["step"]) : "-", widths.step)
      .right(lag_text(lag), widths.lag, style_of_lag(lag))
      .right(short_duration_text(rank["age_seconds"]), widths.since)
      .right(processors_text(rank), widths.processors)
      .right(memory_text(rank["memory_bytes"]), widths.memory)
      .right(loss.is_number() ? loss_text(loss.get<double>()) : "-", widths.loss);
  StyledLine out = with_bar(cells.take(), shares_.of(number), true);
  const std::size_t room = columns > out.width() ? columns - out.width() : 0;
  return out.add(short_trouble(trouble, room), style_of_trouble(trouble)).trimmed();
}

StyledLine TopView::line_of(const Row& row, std::size_t columns) const {
  return (row.rank ? rank_line(*row.rank, columns) : node_line(row.node, columns)).cut(columns);
}

bool TopView::shows_history(Size size) { return size.rows >= kChartsRows && size.columns >= kChartsColumns; }

std::vector<StyledLine> TopView::head(Size size) const {
  const bool tall = size.rows >= kChartsRows;
  std::vector<StyledLine> out = top_head(live_, problem_, size.columns, tall, unicode_);
  if (!live_.is_object()) return out;
  if (shows_history(size)) {
    const auto charts = chart_panel(live_, seen_, size.columns, unicode_);
    if (!charts.empty() && out.back().width() > 0) out.emplace_back();
    out.insert(out.end(), charts.begin(), charts.end());
    if (!charts.empty()) out.emplace_back();
  }
  out.push_back(headings(size.columns));
  return out;
}

StyledLine TopView::keys_line() const {
  if (asks_about_drain_)
    return {"drain " + drained_.name + ": its workers save, and leave it?   y: yes   others: no", Style::attention};
  if (shows_text_) return {"up/down: scroll   Esc: back   q: quit", Style::dim};
  const char* const orders[] = {"trouble", "rank", "steps behind", "memory", "own time"};
  return {"j/k: move  Enter: open  s: sort (" + std::string(orders[static_cast<std::size_t>(order_)]) +
              ")  p: stacks  d: drain  q: quit",
          Style::dim};
}

std::size_t TopView::body_rows(Size size) const {
  const std::size_t used = (shows_text_ ? 0 : head(size).size()) + kKeysRows;
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
      order_ = order_ == Order::share ? Order::trouble : static_cast<Order>(static_cast<int>(order_) + 1);
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
      out.lines.push_back(StyledLine(text_[i]).cut(size.columns));
  } else {
    out.lines = head(size);
    const std::vector<Row> all = rows();
    const std::size_t top = selected_ < page ? 0 : selected_ - page + 1;
    for (std::size_t i = top; i < std::min(all.size(), top + page); ++i) {
      if (i == selected_) out.selected = out.lines.size();
      out.lines.push_back(line_of(all[i], size.columns));
    }
  }
  out.lines.resize(size.rows > kKeysRows ? size.rows - kKeysRows : 0);
  out.lines.push_back(keys_line().cut(size.columns));
  return out;
}

std::string TopView::plain() const {
  constexpr std::size_t kAnyRows = 0, kManyColumns = 400;
  std::string out;
  for (const StyledLine& line : head({kAnyRows, kManyColumns}))
    if (line.width() > 0) out += line.text() + "\n";
  TopView open = *this;
  for (const Row& row : rows())
    if (is_closed(row.node) && open.toggled_.erase(row.node.key) == 0) open.toggled_.insert(row.node.key);
  for (const Row& row : open.rows()) out += open.line_of(row, kManyColumns).text() + "\n";
  return out;
}

}  // namespace ddprun::launcher

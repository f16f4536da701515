#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "trainer/tour/operation_report.h"
#include "trainer/tour/svg.h"
#include "trainer/tour/timeline.h"

namespace ddprun::train {
namespace {

constexpr std::size_t kLanesDrawnMax = 32;
constexpr double kWidth = 960, kLaneLeft = 84, kRightMin = 30, kTimelineMargin = 20, kLane = 30, kLaneGap = 10;
constexpr double kNameGap = 5;            // between a line and its name
constexpr double kSize = 12, kLine = 18;  // size of texts, distance of lines
constexpr std::string_view kAxisColour = "#555555", kGrid = "#d9d9d9", kDark = "#1a1a1a";
using Anchor = TextStyle::Anchor;

struct BarStyle {
  std::string_view colour, name;
};

// Okabe and Ito's colours, which colour-blind people can distinguish, and a grey.
BarStyle bar_style(Activity what) {
  switch (what) {
    case Activity::work:
      return {"#0072b2", "work"};
    case Activity::barrier:
      return {"#c9c9c9", "waiting in the barrier"};
    case Activity::forward:
      return {"#009e73", "forward"};
    case Activity::backward:
      return {"#e69f00", "backward"};
    case Activity::gradients:
      return {"#f0e442", "waiting for gradients"};
  }
  return {};
}

constexpr std::array kActivities{Activity::work, Activity::barrier, Activity::forward, Activity::backward,
                                 Activity::gradients};

double end_of(const std::vector<Lane>& lanes) {
  double end = 1e-3;
  for (const Lane& lane : lanes)
    for (const Span& span : lane) end = std::max(end, span.end);
  return end;
}

// 1, 2 or 5 times a power of ten, so that there are at most eight ticks.
double tick_of(double end) {
  const double power = std::pow(10, std::floor(std::log10(end / 8)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (end / (factor * power) <= 8) return factor * power;
  return 10 * power;
}

class Drawing {
 public:
  Drawing(const std::vector<Lane>& lanes, const std::vector<SyncPoint>& sync_points)
      : lanes_(lanes),
        end_(end_of(lanes)),
        drawn_(std::min(lanes.size(), kLanesDrawnMax)),
        right_(right_margin(sync_points)),
        names_(place_names(sync_points)),
        top_(74 + kLine * rows_of_names()),
        bottom_(top_ + (kLane + kLaneGap) * static_cast<double>(drawn_)),
        svg_(kWidth, bottom_ + 60 + (drawn_ < lanes.size() ? kLine : 0), "What each rank does, and when it waits") {}

  std::string draw() {
    svg_.text(kTimelineMargin, 28, "What each rank does, and when it waits for the others", {.size = 17, .bold = true});
    draw_legend();
    draw_axis();
    for (std::size_t rank = 0; rank < drawn_; ++rank) draw_lane(rank);
    for (const Name& name : names_) draw_sync_point(name);
    return svg_.str();
  }

 private:
  struct Name {
    std::string text;
    double x;
    int row;
  };

  double x_of(double time) const { return kLaneLeft + (kWidth - kLaneLeft - right_) * time / end_; }

  // Room for the name of a sync point at the very end.
  static double right_margin(const std::vector<SyncPoint>& sync_points) {
    double margin = kRightMin;
    for (const SyncPoint& sync_point : sync_points)
      margin = std::max(margin, kNameGap + text_width(sync_point.name, kSize));
    return margin;
  }

  // Each right of its line, which is where the last rank arrives. A line begins below all names that it would cross, so
  // that no line cuts a name, and no name covers another.
  std::vector<Name> place_names(const std::vector<SyncPoint>& sync_points) const {
    std::vector<Name> names;
    for (const SyncPoint& sync_point : sync_points) {  // they are sorted from left to right
      double at = 0;
      for (const Lane& lane : lanes_) at = std::max(at, lane.at(sync_point.span).begin);
      Name name{sync_point.name, x_of(at), 0};
      for (const Name& before : names)
        if (name.x < before.x + kNameGap + text_width(before.text, kSize) + kNameGap)
          name.row = std::max(name.row, before.row + 1);
      names.push_back(name);
    }
    return names;
  }

  double rows_of_names() const {
    int rows = 0;
    for (const Name& name : names_) rows = std::max(rows, name.row + 1);
    return rows;
  }

  void draw_legend() {
    double x = kTimelineMargin;
    for (const Activity what : kActivities) {
      const auto [colour, name] = bar_style(what);
      svg_.rect({x, 42, 14, 14}, colour, kDark, 0.5);
      svg_.text(x + 20, 53, name, {.size = kSize});
      x += 20 + text_width(name, kSize) + 14;
    }
  }

  void draw_axis() {
    const double tick = tick_of(end_);
    for (int i = 0; i * tick <= end_; ++i) {
      const double x = x_of(i * tick);
      svg_.line(x, top_ - 4, x, bottom_ + 4, kGrid);
      svg_.text(x, bottom_ + 20, decimal(i * tick, tick < 1 ? 2 : 0),
                {.size = kSize, .anchor = Anchor::middle, .colour = kAxisColour});
    }
    svg_.text((kLaneLeft + kWidth - right_) / 2, bottom_ + 42, "milliseconds",
              {.size = kSize, .anchor = Anchor::middle, .colour = kAxisColour});
    if (drawn_ < lanes_.size())
      svg_.text(kLaneLeft, bottom_ + 42 + kLine, "and " + counted(lanes_.size() - drawn_, "more rank"),
                {.size = kSize, .colour = kAxisColour});
  }

  void draw_lane(std::size_t rank) {
    const double y = top_ + (kLane + kLaneGap) * static_cast<double>(rank);
    svg_.text(kLaneLeft - 10, y + kLane / 2 + 4.5, "rank " + std::to_string(rank), {.anchor = Anchor::end});
    for (const Span& span : lanes_[rank]) {
      const std::string_view colour = bar_style(span.what).colour;
      const double x = x_of(span.begin), width = x_of(span.end) - x;
      svg_.rect({x, y, width, kLane}, colour);
      write_in_bar(x, width, y + kLane / 2 + 4.5, decimal(span.end - span.begin, 0), text_colour_on(colour));
    }
  }

  // Writes in the widest part of the bar that no line of a sync point cuts, if it is wide enough.
  void write_in_bar(double x, double width, double y, const std::string& text, std::string_view ink) {
    std::vector<double> cuts{x, x + width};
    for (const Name& name : names_)
      if (name.x > x && name.x < x + width) cuts.push_back(name.x);
    std::sort(cuts.begin(), cuts.end());
    double from = x, widest = 0;
    for (std::size_t i = 1; i < cuts.size(); ++i)
      if (cuts[i] - cuts[i - 1] > widest) from = cuts[i - 1], widest = cuts[i] - cuts[i - 1];
    if (text_width(text, kSize) + 8 <= widest)
      svg_.text(from + widest / 2, y, text, {.size = kSize, .anchor = Anchor::middle, .colour = ink});
  }

  void draw_sync_point(const Name& name) {
    const double y = 74 + kLine * name.row + kSize - 2;
    svg_.line(name.x, y - kSize + 2, name.x, bottom_ + 4, kDark, 1.2, /*dashed=*/true);
    svg_.text(name.x + kNameGap, y, name.text, {.size = kSize});
  }

  const std::vector<Lane>& lanes_;
  const double end_;
  const std::size_t drawn_;
  const double right_;
  const std::vector<Name> names_;
  const double top_, bottom_;
  Svg svg_;
};

}  // namespace

std::string picture_of(const std::vector<Lane>& lanes, const std::vector<SyncPoint>& sync_points) {
  return Drawing(lanes, sync_points).draw();
}

}  // namespace ddprun::train

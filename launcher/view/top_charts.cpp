#include "launcher/view/top_charts.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <ctime>

#include "launcher/view/units.h"
#include "rendezvous/base/loss_text.h"

namespace ddprun::launcher {
namespace {

using nlohmann::json;

constexpr double kMsPerSecond = 1000,
                 kDecades = 100;  // from so many times the least on, a loss is shown by its logarithm
constexpr std::size_t kSeenMax = 512, kChartRows = 5, kEventsShown = 5, kGap = 3, kEventsWidthMin = 40,
                      kEventsWidthMax = 72;
// What history.samples has at which place.
constexpr std::size_t kSampleTime = 0, kSamplePace = 2, kSampleLoss = 3;

struct Series {
  std::vector<ChartPoint> pace = {}, loss = {};
  double until_ms = 0;
};

void keep(std::vector<ChartPoint>& points, double ms, const json& value) {
  if (!value.is_number()) return;
  if (points.size() == kSeenMax) {
    for (std::size_t i = 0; i < kSeenMax / 2; ++i) points[i] = points[2 * i];
    points.resize(kSeenMax / 2);
  }
  points.push_back({ms, value.get<double>()});
}

Series series_of(const json& history) {
  Series out;
  for (const json& sample : history.value("samples", json::array())) {
    if (!sample.is_array() || sample.size() <= kSampleLoss || !sample[kSampleTime].is_number()) continue;
    out.until_ms = sample[kSampleTime];
    for (const auto& [at, points] : {std::pair(kSamplePace, &out.pace), std::pair(kSampleLoss, &out.loss)})
      if (sample[at].is_number()) points->push_back({out.until_ms, sample[at].get<double>()});
  }
  return out;
}

std::pair<double, double> range_of(const std::vector<ChartPoint>& points) {
  const auto [least, most] = std::minmax_element(
      points.begin(), points.end(), [](const ChartPoint& a, const ChartPoint& b) { return a.value < b.value; });
  return {least->value, most->value};
}

// A heading and the curve's rows, all of the same width.
std::vector<StyledLine> chart(const StyledLine& heading, const std::vector<std::string>& rows, Style style,
                              std::size_t cells) {
  std::vector<StyledLine> out{heading.cut(cells).fill(cells)};
  for (const std::string& row : rows) out.emplace_back(row, style);
  return out;
}

double number_or(const json& live, const char* name, double other) {
  const json value = live.value(name, json());
  return value.is_number() ? value.get<double>() : other;
}

std::string span_text(const std::vector<ChartPoint>& points, double until_ms) {
  return "last " + duration_text(std::max((until_ms - points.front().ms) / kMsPerSecond, 1.0));
}

std::vector<StyledLine> pace_chart(const Series& series, const json& live, std::size_t cells, bool unicode) {
  const double now = number_or(live, "steps_per_second", series.pace.back().value), most = range_of(series.pace).second;
  StyledLine heading("pace  ", Style::strong);
  heading.add(formatted("%.3g steps/s", now), now > 0 ? Style::good : Style::attention);
  heading.add(formatted("  0 to %.3g, ", most) + span_text(series.pace, series.until_ms), Style::dim);
  const auto rows = chart_rows(chart_cells(series.pace, series.until_ms, cells), kChartRows, 0, most, unicode);
  return chart(heading, rows, Style::good, cells);
}

std::vector<StyledLine> loss_chart(Series series, const json& live, std::size_t cells, bool unicode) {
  const double now = number_or(live, "loss", series.loss.back().value);
  const auto [least, most] = range_of(series.loss);
  const bool is_log = least > 0 && most >= kDecades * least;
  StyledLine heading("loss  ", Style::strong);
  heading.add(loss_text(now), Style::busy);
  heading.add("  " + loss_text(least) + " to " + loss_text(most) + (is_log ? ", log scale" : ""), Style::dim);
  if (is_log)
    for (ChartPoint& point : series.loss) point.value = std::log(point.value);
  const auto [low, high] = range_of(series.loss);
  const auto rows = chart_rows(chart_cells(series.loss, series.until_ms, cells), kChartRows, low, high, unicode);
  return chart(heading, rows, Style::busy, cells);
}

std::string clock_text(const json& unix_ms) {
  const auto seconds = static_cast<std::time_t>(unix_ms.is_number() ? unix_ms.get<double>() / kMsPerSecond : 0);
  std::tm local{};
  std::array<char, 16> text{};
  localtime_r(&seconds, &local);
  return {text.data(), std::strftime(text.data(), text.size(), "%H:%M:%S", &local)};
}

Style style_of_mark(const std::string& kind) {
  if (kind == "failure") return Style::bad;
  if (kind == "straggler" || kind == "still") return Style::attention;
  return kind == "snapshot" ? Style::busy : Style::plain;
}

// The newest one last.
std::vector<StyledLine> last_events(const json& history, std::size_t columns) {
  const json marks = history.value("marks", json::array());
  std::vector<StyledLine> out{StyledLine("events", Style::strong)};
  for (std::size_t i = marks.size() - std::min(marks.size(), kEventsShown); i < marks.size(); ++i) {
    const json& mark = marks[i];
    if (!mark.is_array() || mark.size() < 3 || !mark[1].is_string() || !mark[2].is_string()) continue;
    const std::string kind = mark[1];
    StyledLine line(clock_text(mark[0]) + "  ", Style::dim);
    line.add(formatted("%-9.16s  ", kind.c_str()), style_of_mark(kind)).add(mark[2].get<std::string>());
    out.push_back(line.cut(columns));
  }
  if (out.size() == 1) out.emplace_back("none so far", Style::dim);
  return out;
}

}  // namespace

void SeenPoints::take(const json& live, double seconds) {
  now_ms_ = seconds * kMsPerSecond;
  keep(pace_, now_ms_, live.value("steps_per_second", json()));
  keep(loss_, now_ms_, live.value("loss", json()));
}

std::vector<StyledLine> chart_panel(const json& live, const SeenPoints& seen, std::size_t columns, bool unicode) {
  const json history = live.value("history", json());
  Series series{seen.pace(), seen.loss(), seen.now_ms()};
  if (history.is_object()) series = series_of(history);
  const std::size_t parts = static_cast<std::size_t>(!series.pace.empty()) + (series.loss.empty() ? 0 : 1);
  const std::size_t for_events = !history.is_object() ? 0 : std::clamp(columns / 3, kEventsWidthMin, kEventsWidthMax);
  std::vector<std::vector<StyledLine>> blocks;
  if (parts > 0) {
    const std::size_t cells = (columns - for_events) / parts - kGap;
    if (!series.pace.empty()) blocks.push_back(pace_chart(series, live, cells, unicode));
    if (!series.loss.empty()) blocks.push_back(loss_chart(series, live, cells, unicode));
  }
  if (for_events > 0) blocks.push_back(last_events(history, parts > 0 ? for_events : columns));
  if (blocks.empty()) return {};
  std::vector<StyledLine> out(1 + kChartRows);
  std::size_t begin = 0;
  for (const auto& block : blocks) {
    for (std::size_t i = 0; i < block.size(); ++i) out[i].fill(begin).add(block[i]);
    begin += block.front().width() + kGap;
  }
  for (StyledLine& line : out) line = line.cut(columns);
  return out;
}

}  // namespace ddprun::launcher

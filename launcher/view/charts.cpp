#include "launcher/view/charts.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace ddprun::launcher {
namespace {

constexpr int kLevels = 8;
constexpr double kMsPerCellMin = 1000;
constexpr std::array<const char*, kLevels + 1> kBlocks{" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr std::array<const char*, kLevels + 1> kLetters{" ", ".", ":", "-", "=", "+", "*", "%", "#"};

std::string repeated(const char* text, std::size_t count) {
  std::string out;
  for (std::size_t i = 0; i < count; ++i) out += text;
  return out;
}

}  // namespace

std::vector<std::optional<double>> chart_cells(const std::vector<ChartPoint>& points, double until_ms,
                                               std::size_t cells) {
  std::vector<std::optional<double>> out(cells);
  if (points.empty() || cells == 0) return out;
  const double step = std::max((until_ms - points.front().ms) / static_cast<double>(cells), kMsPerCellMin);
  const double begin = until_ms - step * static_cast<double>(cells);
  std::vector<double> sums(cells);
  std::vector<int> counts(cells);
  for (const ChartPoint& point : points) {
    const double at = std::clamp((point.ms - begin) / step, 0.0, static_cast<double>(cells - 1));
    const auto cell = static_cast<std::size_t>(at);
    sums[cell] += point.value;
    ++counts[cell];
  }
  for (std::size_t i = 0; i < cells; ++i)
    out[i] = counts[i] > 0 ? std::optional(sums[i] / counts[i]) : i > 0 ? out[i - 1] : std::nullopt;
  return out;
}

std::vector<std::string> chart_rows(const std::vector<std::optional<double>>& cells, std::size_t rows, double low,
                                    double high, bool unicode) {
  const auto& signs = unicode ? kBlocks : kLetters;
  const double levels = static_cast<double>(rows) * kLevels, range = high - low;
  std::vector<std::string> out(rows);
  for (const std::optional<double>& cell : cells) {
    const double share = !cell ? 0 : range > 0 ? std::clamp((*cell - low) / range, 0.0, 1.0) : 0.5;
    const int level = cell ? std::max(1, static_cast<int>(std::lround(share * levels))) : 0;
    for (std::size_t row = 0; row < rows; ++row) {
      const int below = static_cast<int>(rows - 1 - row) * kLevels;
      out[row] += signs[static_cast<std::size_t>(std::clamp(level - below, 0, kLevels))];
    }
  }
  return out;
}

ProgressBar progress_bar(double share, std::size_t cells, bool unicode) {
  const double full = std::clamp(share, 0.0, 1.0) * static_cast<double>(cells);
  const auto done = static_cast<std::size_t>(full);  // full only if all is done
  if (!unicode) return {repeated("#", done), repeated("-", cells - done)};
  const bool has_half = full - static_cast<double>(done) >= 0.5;
  return {repeated("━", done) + (has_half ? "╸" : ""), repeated("─", cells - done - (has_half ? 1 : 0))};
}

}  // namespace ddprun::launcher

// Curves and bars of characters. Pure.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::launcher {

struct ChartPoint {
  double ms = 0, value = 0;  // on any clock
};

// One value a cell of the time from the first point to `until`, at least a second a cell, the last one at the right:
// the mean of what falls into it, else the one before. Empty: before the first point.
std::vector<std::optional<double>> chart_cells(const std::vector<ChartPoint>& points, double until_ms,
                                               std::size_t cells);

// A curve as `rows` lines, the highest first, with eight levels a line: blocks of Unicode, else ASCII. `low` has one
// level, `high` all.
std::vector<std::string> chart_rows(const std::vector<std::optional<double>>& cells, std::size_t rows, double low,
                                    double high, bool unicode);

// "######----": so much of it, from 0 to 1, is done. Of Unicode's lines it has halves of cells.
struct ProgressBar {
  std::string done = {}, left = {};
};
ProgressBar progress_bar(double share, std::size_t cells, bool unicode);

}  // namespace ddprun::launcher

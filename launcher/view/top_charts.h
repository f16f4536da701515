// What `ddprun top` shows on large terminals: curves of pace and loss, and the last events. Pure.
#pragma once
#include <cstddef>
#include <nlohmann/json.hpp>
#include <vector>

#include "launcher/view/charts.h"
#include "launcher/view/styled_line.h"

namespace ddprun::launcher {

// Pace and loss of a job's answers, for agents that keep no history: every second one is left out where there are many.
class SeenPoints {
 public:
  void take(const nlohmann::json& live, double seconds);
  const std::vector<ChartPoint>& pace() const { return pace_; }
  const std::vector<ChartPoint>& loss() const { return loss_; }
  double now_ms() const { return now_ms_; }

 private:
  std::vector<ChartPoint> pace_ = {}, loss_ = {};
  double now_ms_ = 0;
};

// Six lines of at most `columns` characters, from the answer's "history", else from what has been seen; none, if
// nothing is known of either.
std::vector<StyledLine> chart_panel(const nlohmann::json& live, const SeenPoints& seen, std::size_t columns,
                                    bool unicode);

}  // namespace ddprun::launcher

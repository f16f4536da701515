// `ddprun status --watch`: a job's status again and again, in place on a terminal, else block after block.
#pragma once
#include <functional>
#include <string>

#include "launcher/view/styled_line.h"
#include "rendezvous/base/time.h"

namespace ddprun::launcher {

struct StatusLook {
  std::string text = {};       // of several lines
  Style state = Style::plain;  // of the line "state"
  bool is_over = false;
};

// Shows what `look` returns until the job is over or the user ends it, by q or Ctrl-C. The last text stays on stdout.
// `columns`: of the terminal, to cut lines. What `look` throws ends it.
void watch_status(const std::function<StatusLook(std::size_t columns)>& look, Duration every);

}  // namespace ddprun::launcher

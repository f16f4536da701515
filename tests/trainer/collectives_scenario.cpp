#include "tests/trainer/collectives_check.h"
#include "tests/trainer/ddp_worker.h"

namespace ddprun::test {

void check_collectives(const ProcessGroup& group, const Words&) {
  // Ranks that share a GPU take turns on it: each call takes milliseconds.
  const Layouts layouts = group.device().is_cuda() ? Layouts::of_floats : Layouts::all;
  Findings findings;
  reduce_everything(group, findings, nullptr, layouts);
  move_everything(group, findings, layouts);
  require(findings.wrong().empty(), "not as in one process: " + findings.wrong());
}

}  // namespace ddprun::test

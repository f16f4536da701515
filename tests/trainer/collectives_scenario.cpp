#include "tests/trainer/collectives_check.h"
#include "tests/trainer/ddp_worker.h"

namespace ddprun::test {

void check_collectives(const ProcessGroup& group, const Words&) {
  Findings findings;
  reduce_everything(group, findings, nullptr);
  move_everything(group, findings);
  require(findings.wrong().empty(), "not as in one process: " + findings.wrong());
}

}  // namespace ddprun::test

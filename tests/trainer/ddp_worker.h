// A rank of the tests of the library `ddp`: `ddp_worker SCENARIO [WORD ...]` joins the group of its environment and
// does what the scenario says. What does not hold is an exception, told on stderr with exit code 1.
#pragma once
#include <stdexcept>
#include <string>
#include <vector>

#include "ddprun/process_group.h"

namespace ddprun::test {

using Words = std::vector<std::string>;

void require(bool condition, const std::string& what);
at::Tensor sum_over(const ProcessGroup& group, const at::Tensor& own);  // all ranks

// Losses and weights of each mode (the words; none: all), the same lines as ddp_parity.py.
void print_parity(const ProcessGroup& group, const Words& modes);
// SyncBatchNorm on the parts of a batch against BatchNorm on the whole of it.
void check_sync_batch_norm(const ProcessGroup& group, const Words& words);
void check_conversion(const ProcessGroup& group, const Words& words);
// PATH OPTIMIZER STEPS [every-step]: trains until the run has so many steps, from a snapshot if there is one, and saves
// one at the end; or, as fast as it can, after every step. Each step is a line with the samples it saw.
void train_with_snapshots(const ProcessGroup& group, const Words& words);
// PATH [STEPS [best]]: all 4 MiB of a model are the step's number; they are saved step by step, and looked at after a
// resume. The best is that of step 2.
void save_repeatedly(const ProcessGroup& group, const Words& words);
// PATH: in the first round keeps step 1 in memory, and saves step 2, which is too large for it; then says what it goes
// on from.
void keep_repeatedly(const ProcessGroup& group, const Words& words);
void outgrow_memory(const ProcessGroup& group, const Words& words);
// Two ranks. What each call reports in a worker channel, while it waits and afterwards.
void check_beats(const ProcessGroup& group, const Words& words);
// As print_parity(), with a worker channel.
void print_parity_with_beats(const ProcessGroup& group, const Words& modes);

}  // namespace ddprun::test

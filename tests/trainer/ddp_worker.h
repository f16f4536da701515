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

// Losses and weights of each mode (the words; none: all), the same lines as ddp_parity.py.
void print_parity(const ProcessGroup& group, const Words& modes);
// Every collective, with every type, against what one process computes.
void check_collectives(const ProcessGroup& group, const Words& words);
// SyncBatchNorm on the parts of a batch against BatchNorm on the whole of it.
void check_sync_batch_norm(const ProcessGroup& group, const Words& words);
void check_conversion(const ProcessGroup& group, const Words& words);
// A rank's model differs: in a shape, a type, a name, a layer, what is frozen (the word).
void build_another_model(const ProcessGroup& group, const Words& words);
// A layer that the loss does not depend on, without find_unused_parameters.
void omit_layer(const ProcessGroup& group, const Words& words);
// Outputs of all kinds reach backward; gradients can be forgotten and accumulated in every way.
void check_outputs(const ProcessGroup& group, const Words& words);
void check_gradients(const ProcessGroup& group, const Words& words);
// Every forward pass begins with rank 0's buffers, or with one's own where that is left out.
void check_buffers(const ProcessGroup& group, const Words& words);
void check_scaler(const ProcessGroup& group, const Words& words);
// fp16 autocast with the scaler learns what float does, and all ranks leave out a step that overflows on one.
void check_half_precision(const ProcessGroup& group, const Words& words);
// A loader's batches, in pinned memory where there is a GPU.
void check_batches(const ProcessGroup& group, const Words& words);
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
// PATH: saves a model of another shape.
void save_another_model(const ProcessGroup& group, const Words& words);
// One rank's loss is not finite: a step less on all ranks, or the end on all of them (the word: skip, stop).
void train_with_bad_loss(const ProcessGroup& group, const Words& words);
// Two ranks. What each call reports in a worker channel, while it waits and afterwards.
void check_beats(const ProcessGroup& group, const Words& words);
// As print_parity(), with a worker channel.
void print_parity_with_beats(const ProcessGroup& group, const Words& modes);

}  // namespace ddprun::test

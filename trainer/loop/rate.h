// The learning rate of a run, from its settings. Pure.
#pragma once
#include <cstdint>

#include "ddprun/lr_schedule.h"
#include "trainer/config/options.h"

namespace ddprun::train {

// `steps_per_epoch` is used if the unit is the step. Throws Error if the warm-up takes the whole run.
LrSchedule make_schedule(const Options& options, std::int64_t steps_per_epoch);

}  // namespace ddprun::train

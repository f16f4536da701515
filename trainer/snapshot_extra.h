// What `train` keeps in a snapshot beside what the library does: its settings, the account of the epoch it is in, how
// good it was, and the characters that a model of text knows.
#pragma once
#include <nlohmann/json.hpp>

#include "trainer/run.h"

namespace ddprun::train {

// Every setting's value, by its key.
nlohmann::json config_of(const Run& run);

// A collective. Error, on all ranks, where the epoch's loss is not finite.
nlohmann::json extra_of(const Run& run);
// Error where the run cannot go on from it. One without anything of ours, as of another program, changes nothing.
void take_extra(Run& run, const nlohmann::json& extra);

}  // namespace ddprun::train

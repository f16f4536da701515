// What can be set for `train`: its table, and what a run reads back from it. Pure.
#pragma once
#include <string>
#include <vector>

#include "launcher/settings/option.h"
#include "trainer/config/options.h"

namespace ddprun::train {

const settings::Table& setting_table();

// Those with a value, without --help and the like.
std::vector<const settings::Option*> all_settings();

// The value in force, as the table reads it.
std::string text_of(const settings::Option& setting, const Options& options);

// Whether another value makes another run: told when it is resumed.
bool makes_another_run(const settings::Option& setting);

}  // namespace ddprun::train

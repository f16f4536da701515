// The table of `train`'s settings, and what a run reads from it. Pure.
#pragma once
#include <string>
#include <vector>

#include "launcher/settings/option.h"
#include "trainer/config/options.h"

namespace ddprun::train {

const settings::Table& setting_table();

// All settings that have a value, so without --help and the like.
std::vector<const settings::Option*> all_settings();

// The value in force, in the form that the table parses.
std::string text_of(const settings::Option& setting, const Options& options);

// Whether ranks may have different values: of what one machine uses, and of what only rank 0 writes.
bool may_differ_between_ranks(const std::string& key);

// Whether another value may change the result of a run: then a resumed run reports it.
bool changes_result(const settings::Option& setting);

}  // namespace ddprun::train

// What `train` adds to the library's snapshot: its settings, the current epoch's totals, its best evaluation, and a
// text model's alphabet.
#pragma once
#include <nlohmann/json.hpp>

#include "trainer/loop/run.h"

namespace ddprun::train {

// Every setting's value, by its key.
nlohmann::json config_of(const Run& run);
// A collective. Throws Error, on all ranks, if the epoch's loss is not finite.
nlohmann::json extra_of(const Run& run);
// The same without a collective, in two parts: of all ranks, and of this one.
nlohmann::json common_extra_of(const Run& run);
std::vector<std::pair<std::string, at::Tensor>> own_numbers_of(const Run& run);
// The value of a setting in the snapshot's `extra`; empty: it is another program's.
std::string saved_setting(const nlohmann::json& extra, const std::string& key);
// Of the snapshot's text, if it has one.
bool has_same_alphabet(const Run& run, const nlohmann::json& extra);
// `own`: what own_numbers_of() gave on each rank, by name, where it is known. Throws UsageError if the run cannot
// continue from it. An `extra` of another program changes nothing.
void restore_extra(Run& run, const nlohmann::json& extra, const std::vector<nlohmann::json>& own);

}  // namespace ddprun::train

// The file of --snapshot. Pure.
#pragma once
#include <string>

#include "trainer/config/options.h"

namespace ddprun::train {

// Its default in earlier versions, for every model and data set.
inline constexpr const char* kFormerSnapshotPath = "snapshot.pt";

// As given; else snapshot-MODEL-DATA.pt, so that runs of several models and data sets find their own in one folder. Of
// a text that is named, DATA is the file's name. `options` are resolved.
std::string snapshot_path(const Options& options);

}  // namespace ddprun::train

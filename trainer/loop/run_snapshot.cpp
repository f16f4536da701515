#include "trainer/loop/run_snapshot.h"

#include <filesystem>
#include <fstream>
#include <iterator>

#include "ddprun/collectives.h"
#include "rendezvous/base/error.h"
#include "trainer/config/snapshot_path.h"
#include "trainer/ddp/snapshot/snapshot_format.h"
#include "trainer/ddp/snapshot/state_dict.h"
#include "trainer/loop/snapshot_extra.h"

namespace ddprun::train {
namespace {

namespace fs = std::filesystem;

bool has_same_optimizer(const Run& run, const nlohmann::json& extra) {
  const std::string optimizer = saved_setting(extra, "optimizer.name");
  return optimizer.empty() || optimizer == run.options.optimizer.name;
}

// A file of another program has no names, and its tensors decide alone.
bool has_same_names(const Run& run, const nlohmann::json& extra) {
  const std::string model = saved_setting(extra, "model.name"), data = saved_setting(extra, "data.name");
  return (model.empty() && data.empty()) || (model == run.options.model.name && data == run.options.data.name);
}

// Unreadable, damaged or of another run: it is left alone.
bool former_fits(const Run& run) try {
  if (!fs::exists(kFormerSnapshotPath)) return false;
  std::ifstream file(kFormerSnapshotPath, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  const Snapshot snapshot = decode(bytes, kFormerSnapshotPath);
  return has_same_names(run, snapshot.extra) && has_same_optimizer(run, snapshot.extra) &&
         has_same_alphabet(run, snapshot.extra) && model_mismatch(*run.model, snapshot.model_state).empty();
} catch (const std::exception&) {
  return false;
}

// Also one that has lost its newest snapshot.
bool has_begun(const std::string& path) {
  std::error_code none;
  return fs::exists(path, none) || fs::exists(path + ".generation", none);
}

std::string content_of(const Run& run, const nlohmann::json& extra, const std::string& why) {
  const std::string model = saved_setting(extra, "model.name"), data = saved_setting(extra, "data.name");
  const std::string &our_model = run.options.model.name, &our_data = run.options.data.name;
  const std::string ours = our_model + " on " + our_data;
  if (model.empty() || data.empty()) return why + ", and this run is " + ours;
  if (!has_same_names(run, extra)) return "it is of " + model + " on " + data + ", and this run is " + ours;
  if (!has_same_alphabet(run, extra)) return "it is of " + ours + " with other characters than this text has";
  return "it is of " + ours + ", but " + why;
}

}  // namespace

void choose_snapshot_path(Run& run) {
  run.snapshot_path = snapshot_path(run.options);
  const bool by_default = run.options.snapshot.path.empty() && !run.options.snapshot.fresh;
  const bool begun = has_begun(run.snapshot_path);
  const bool fits = by_default && !begun && run.env.local_rank == 0 && former_fits(run);
  bool any_begun = false, any_fits = false;
  for (const nlohmann::json& one : all_gather_object({begun, fits}, run.group)) {
    any_begun = any_begun || one[0].get<bool>();
    any_fits = any_fits || one[1].get<bool>();
  }
  if (!by_default || any_begun || !any_fits) return;
  run.progress.line("going on in " + std::string(kFormerSnapshotPath) +
                    ", the default of earlier versions, as it is of this model and data and there is no " +
                    run.snapshot_path);
  run.snapshot_path = kFormerSnapshotPath;
}

std::optional<Resumed> resume_or_refuse(Run& run, const TrainingState& state) try {
  return run.snapshots->resume(state);
} catch (const SnapshotMismatch& mismatch) {
  const std::string& path = mismatch.path();
  throw UsageError("cannot go on from " + path, content_of(run, mismatch.extra(), mismatch.why()),
                   "Name another file with --snapshot OTHER.pt, or start over with --fresh, which keeps this one as " +
                       path + ".old.");
}

}  // namespace ddprun::train

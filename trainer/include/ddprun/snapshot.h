// Snapshots of a training run: saved while it runs, found again after any failure, the same one on every rank.
//
//   ddprun::Snapshots snapshots({.path = "run.pt"}, group);
//   const ddprun::TrainingState state{.model = *model, .optimizer = &optimizer, .sampler = &sampler};
//
//   const auto resumed = snapshots.resume(state).value_or(ddprun::Resumed{});  // no snapshot: a new run
//
//   auto at = resumed.at;
//
//   ddprun::DistributedDataParallel ddp(model, {.bucket_order = resumed.bucket_order}, group);
//
//   for (...) {  // one step, ++at.step
//     if (at.step % 100 == 0) snapshots.save(state, {.at = at, .bucket_order = ddp.bucket_order()});
//   }
//   snapshots.finish();  // the last one is on disk, or an exception says why not
//
// A run resumed with the same number of ranks and threads continues bit for bit like one that was never stopped.
// torch.load(weights_only=True) reads the file (docs/internals/snapshot-format.md). It is safe against a power cut at
// any moment; a torn or altered file is named in a warning and skipped.
//
// Every machine reads `path`, which may be on a shared disk or on each machine's own disk. With own disks each machine
// keeps a copy, so that the loss of one loses nothing; all agree on the newest, and machines without it receive it. One
// process of each machine writes.
//
// Under ddprun --memory-snapshots every save() goes to the machine's memory first, which outlives the workers, and
// save_in_memory() makes further ones that cost no more than a copy: after the loss of workers, or of machines while
// others are left, the run goes on from there. A file is read only if it was written after the last one in memory.
//
// Under ddprun each rank tells its agent what is on disk: there is no need to call Worker::saved() (worker.h).
//
// Every rank calls the same functions in the same order; a lost peer makes them throw (process_group.h). If one rank
// fails, all ranks throw the same sentence. Not thread-safe. Destroy it before its process group.
#pragma once
#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ddprun/amp.h"
#include "ddprun/distributed_data_parallel.h"
#include "ddprun/lr_schedule.h"
#include "ddprun/process_group.h"
#include "ddprun/sampler.h"
#include "ddprun/shard_sampler.h"

#pragma GCC visibility push(default)
namespace ddprun {

struct SnapshotOptions {
  // The newest. Older ones are run-g2-s120.pt (generation 2, step 120), the best is run-best.pt. To keep one for good,
  // give it another name, for example by a hard link. Machines with their own disks each have the best of those that
  // they wrote.
  std::string path = "snapshot.pt";
  int keep_last = 2;  // including the newest; two, so that one may be damaged
  // Which of them is the best, by SaveRequest::metric.
  enum class Best { none, highest, lowest } best = Best::none;
  // Training continues as soon as everything is copied to host memory, while a thread writes the copy. The copy is
  // made, and its memory kept for the next one, in either case.
  bool asynchronous = true;
  // In the first round of a job (or without a launcher): renames the snapshots of an earlier run, the newest to
  // PATH.old. A restarted worker continues with what the first round wrote.
  bool fresh = false;
  // Gets a sentence for each snapshot that was skipped, renamed or could not be written, on the rank that did so. By
  // default it goes to stderr.
  std::function<void(const std::string& sentence)> say = {};
};

// How far a run has come.
struct Position {
  std::int64_t epochs_run = 0;    // epochs finished
  std::int64_t step = 0;          // optimizer steps since the beginning; of two snapshots the higher one is newer
  std::int64_t samples_seen = 0;  // over all ranks, the sampler's padding included
  bool operator==(const Position&) const = default;
};

// What a snapshot saves, in addition to every rank's generators. References the caller's objects, on every rank; null
// ones are left out.
struct TrainingState {
  torch::nn::Module& model;
  torch::optim::Optimizer* optimizer = nullptr;  // SGD, Adam or AdamW
  LrSchedule* schedule = nullptr;
  GradScaler* scaler = nullptr;
  DistributedSampler* sampler = nullptr;  // or:
  ShardSampler* shard_sampler = nullptr;
};

struct SaveRequest {
  Position at;
  BucketOrder bucket_order = {};      // DistributedDataParallel::bucket_order()
  std::optional<double> metric = {};  // the same on all ranks; NaN is never the best
  nlohmann::json extra = {};          // any other data of the program, NaN too; in UTF-8; rank 0's is saved
  nlohmann::json own = {};            // of this rank; saved by save_in_memory() only
  // Numbers for `own`, by name: tensors of one element on the group's device, whose values need not be there yet.
  // begin_save_in_memory() does not wait for them; it keeps no snapshot of which one is not finite.
  std::vector<std::pair<std::string, at::Tensor>> own_numbers = {};
};

struct Resumed {
  Position at;
  BucketOrder bucket_order;  // for DdpOptions; empty if unknown or if it does not fit the model
  std::optional<double> metric;
  nlohmann::json extra;
  std::vector<nlohmann::json> own = {};  // by the rank that had it; null or missing where it is not known
  std::string path;                      // of the file, on the machine that had it
  bool from_memory = false;              // and not from that file
  // Number of ranks that wrote it; 0: unknown. If it equals the current number, the generators were restored, too.
  int world_size = 0;
};

// The snapshot is of another model or optimizer. The same on all ranks; no restart helps.
class SnapshotMismatch : public std::runtime_error {
 public:
  SnapshotMismatch(const std::string& sentence, std::string why, std::string path, nlohmann::json extra)
      : std::runtime_error(sentence), why_(std::move(why)), path_(std::move(path)), extra_(std::move(extra)) {}

  const std::string& why() const { return why_; }  // "it has 16 tensors where the model has 122"
  const std::string& path() const { return path_; }
  const nlohmann::json& extra() const { return extra_; }  // SaveRequest::extra of who wrote it

 private:
  std::string why_, path_;
  nlohmann::json extra_;
};

// The path of a run's best snapshot: run-best.pt for run.pt.
std::string best_snapshot_path(const std::string& path);

class Snapshots {
 public:
  // Looks for snapshots on all machines. Throws if one of them cannot write there.
  explicit Snapshots(const SnapshotOptions& options, const ProcessGroup& group = default_group());
  ~Snapshots();  // waits for the file that is being written
  Snapshots(const Snapshots&) = delete;
  Snapshots& operator=(const Snapshots&) = delete;

  // Loads the newest good snapshot, if there is one, into everything that `state` names; a schedule's rate only into an
  // optimizer of one group. Call it before the first save(). Throws SnapshotMismatch if it is of another model or
  // optimizer. Needs memory for twice the file, on each rank.
  std::optional<Resumed> resume(const TrainingState& state);

  // Call it between two steps. Waits for the previous file if that is still being written. A disk error gives a
  // warning: training continues, and the next save() tries again.
  void save(const TrainingState& state, const SaveRequest& request);

  // Whether save_in_memory() keeps anything; the same on all ranks.
  bool keeps_in_memory() const;
  // As save(), in memory only. What is in memory is lost with the job. A snapshot that does not fit gives one warning.
  // Where all ranks share one memory they do not wait for each other: then only the first one's `bucket_order` and
  // `extra` are used. Nodes without such memory, or another run of the program that uses it (of a sub-group, with
  // another path), turn it off for all ranks.
  void save_in_memory(const TrainingState& state, const SaveRequest& request);
  // The same, but returns while a thread still copies the state. Call finish_save_in_memory() before the next
  // backward(), or whatever else ranks do together: until then neither parameters nor optimizer states may change, and
  // ranks stay within a step.
  void begin_save_in_memory(const TrainingState& state, const SaveRequest& request);
  // False: it was not kept, as one of its numbers is not finite. Nothing begun: does nothing.
  bool finish_save_in_memory();
  // Instead of it, where another step comes before the next snapshot in memory: on a GPU, whose work waits for the
  // copies then, and the host does not. Elsewhere it is the same.
  bool hold_back_for_memory();
  // How long the GPU was copying for the last one that finish_save_in_memory() waited for; 0 on a CPU.
  std::chrono::duration<double> copying_time() const;

  // Returns once the last save() is on disk on all machines that keep a copy; throws if it failed.
  void finish();
  // The same without throwing: returns the reason of a failure, the same sentence on all ranks; empty on success.
  std::string try_finish();
  // The metric of the best one in this rank's folder; empty if there is none. Call it after finish() or try_finish().
  std::optional<double> best_metric() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddprun
#pragma GCC visibility pop

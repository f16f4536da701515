// Snapshots of a training run: saved while it goes on, found again after whatever happened, the same one on every rank.
//
//   ddprun::Snapshots snapshots({.path = "run.pt"}, group);
//   const ddprun::TrainingState state{.model = *model, .optimizer = &optimizer, .sampler = &sampler};
//
//   const auto resumed = snapshots.resume(state).value_or(ddprun::Resumed{});  // nothing there: a new run
//
//   auto at = resumed.at;
//
//   ddprun::DistributedDataParallel ddp(model, {.bucket_order = resumed.bucket_order}, group);
//
//   for (...) {  // a step each, ++at.step
//     if (at.step % 100 == 0) snapshots.save(state, {.at = at, .bucket_order = ddp.bucket_order()});
//   }
//   snapshots.finish();  // the last one is on disk, or an exception says why not
//
// A run resumed at the same number of ranks, with the same threads, goes on with the bits of one that was never
// stopped. The file is one that torch.load(weights_only=True) reads (docs/snapshot-format.md), safe against a power cut
// at any moment; a torn or altered one is named in a warning and passed over.
//
// `path` is looked at on every machine, and may be on a disk that all of them share, or on one of each machine's own.
// Then each machine keeps a copy, so that the loss of one loses nothing; all agree on the newest, and who lacks it
// receives it. One process of each machine writes.
//
// Under ddprun each rank tells its agent what is safe: Worker::saved() (worker.h) is not needed beside it.
//
// Every rank calls the same functions in the same order; a lost peer makes them throw (process_group.h). What a rank
// cannot do is one sentence that all ranks throw. For one thread. Destroy it before its process group.
#pragma once
#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "ddprun/amp.h"
#include "ddprun/distributed_data_parallel.h"
#include "ddprun/lr_schedule.h"
#include "ddprun/process_group.h"
#include "ddprun/sampler.h"
#include "ddprun/shard_sampler.h"

#pragma GCC visibility push(default)
namespace ddprun {

struct SnapshotOptions {
  // The newest. Those before it are run-g2-s120.pt (generation 2, step 120), the best is run-best.pt. To keep one for
  // good, give it a name of your own: a further link will do. Of machines with disks of their own each has the best of
  // those that it wrote itself.
  std::string path = "snapshot.pt";
  int keep_last = 2;  // the newest among them; two, so that one may be damaged
  // Which of them is the best, by what save() is told.
  enum class Best { none, highest, lowest } best = Best::none;
  // Training goes on as soon as everything is copied to host memory, while a thread writes the copy. Such a copy is
  // made, and kept for the next one, in any case.
  bool asynchronous = true;
  // In the first round of a job (or without a launcher): puts aside what an earlier run left, the newest as PATH.old.
  // A restarted worker goes on with what the first round wrote.
  bool fresh = false;
  // Gets a sentence for each snapshot that was passed over, put aside or could not be written, on the rank that did so.
  // By default it goes to stderr.
  std::function<void(const std::string& sentence)> say = {};
};

// How far a run has come.
struct Position {
  std::int64_t epochs_run = 0;    // epochs finished
  std::int64_t step = 0;          // optimizer steps since the beginning; of two snapshots the higher one is newer
  std::int64_t samples_seen = 0;  // over all ranks, the sampler's padding included
  bool operator==(const Position&) const = default;
};

// What a snapshot is of; the generators of every rank go with it. The caller's own, on every rank; what is null is left
// out.
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
  nlohmann::json extra = {};          // whatever else the program wants back, NaN too; in UTF-8; rank 0's counts
};

struct Resumed {
  Position at;
  BucketOrder bucket_order;  // for DdpOptions; empty where it is not known or does not fit the model
  std::optional<double> metric;
  nlohmann::json extra;
  std::string path;  // the file's, on the machine that had it
  // Ranks that wrote it; 0: unknown. With as many as now the generators were restored, too.
  int world_size = 0;
};

// Where the best of a run's snapshots lies: run-best.pt for run.pt.
std::string best_snapshot_path(const std::string& path);

class Snapshots {
 public:
  // Looks for snapshots on all machines. Throws where one of them could not write there.
  explicit Snapshots(const SnapshotOptions& options, const ProcessGroup& group = default_group());
  ~Snapshots();  // waits for the file that is being written
  Snapshots(const Snapshots&) = delete;
  Snapshots& operator=(const Snapshots&) = delete;

  // Loads the newest good snapshot, if there is one, into all that `state` names; a schedule's rate into an optimizer
  // of one group. Before the first save(). Throws where it is another model's or another optimizer's. Takes memory for
  // twice the file, on each rank.
  std::optional<Resumed> resume(const TrainingState& state);

  // Between two steps. Waits for the file before it, should that still be in the making. What the disk refuses is a
  // warning: training goes on, and the next save() tries again.
  void save(const TrainingState& state, const SaveRequest& request);

  // Returns once the last save() is safe on all machines that keep a copy; throws where it is not.
  void finish();
  // The same, for who has more to do: returns why it is not, the same sentence on all ranks; empty where it is.
  std::string try_finish();
  // Of the best one in this rank's folder; empty where there is none, or none is kept. After finish() or try_finish().
  std::optional<double> best_metric() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddprun
#pragma GCC visibility pop

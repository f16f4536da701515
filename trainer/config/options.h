// The options of `train`: one plain struct, section by section as in a configuration file (settings.h has the names,
// flags and ranges).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "trainer/data/data_spec.h"
#include "trainer/models/model_spec.h"

namespace ddprun::train {

// Without a name: the data's default. Their sizes are not known yet.
struct ModelOptions : ModelSpec {
  bool sync_batch_norm = false;
  bool no_broadcast_buffers = false;
  std::string init = "";                     // file with all first weights
  std::string transfer = "";                 // file from which weights that fit are taken
  std::vector<std::string> skip = {};        // name prefixes to skip in these files
  std::vector<std::string> train_only = {};  // all other parameters are frozen
};

// Without a name: the model's default. What TrainingOptions have, too, counts there.
struct DataOptions : DataSpec {
  DataOptions() : DataSpec{.name = ""} {}
  std::int64_t batch_size = 32;    // samples of each rank and pass, as in PyTorch
  std::int64_t workers = 0;        // threads that prefetch batches
  std::int64_t shuffle_seed = -1;  // -1: TrainingOptions::seed
  std::int64_t mixed_shards = 8;   // shuffled together
};

struct OptimizerOptions {
  std::string name = "sgd";
  double lr = 0.05;  // with momentum 0.9 the digits reach 0.95 in ten epochs, at one to four ranks
  double momentum = 0.9;
  bool nesterov = false;
  double weight_decay = 0;
  bool fused = false;  // one kernel for all weights
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
};

struct ScheduleOptions {
  std::string name = "constant";
  std::string unit = "epoch";  // or step; of the numbers below
  std::int64_t warmup = 0;
  std::int64_t step_size = 10;
  double gamma = 0.1;
  double min_lr = 0;
};

struct TrainingOptions {
  std::int64_t epochs = 10;
  std::int64_t accumulate = 1;  // passes of a step
  double clip_norm = 0, clip_value = 0;
  std::int64_t skip_bad_losses = 0;
  std::string precision = "float";
  double init_scale = 65536;
  std::uint64_t seed = 0;
  bool deterministic = false;
  bool channels_last = false;  // images and convolutions, in memory
  bool cudnn_benchmark = false;
  std::string float32_matmul = "highest";
  bool cuda_graph = false;  // of a step
};

struct SavingOptions {
  std::string path = "";          // snapshot_path.h; empty: by model and data
  std::int64_t every_epochs = 1;  // costs a few milliseconds; a restart then loses little
  std::int64_t every_steps = 0;
  // Between two in memory, where the launcher has some for it; kMemoryStepsByCost: each, on a GPU by what they cost.
  static constexpr std::int64_t kMemoryStepsByCost = -1;
  std::int64_t memory_steps = kMemoryStepsByCost;
  std::int64_t keep = 2;  // one may be damaged
  bool fresh = false;
  std::string best = "none";
  std::string publish = "";
};

struct EvaluationOptions {
  std::int64_t every = 1;     // epochs
  std::int64_t patience = 0;  // epochs without a better one; 0: no early stop
  std::string by = "";        // accuracy or loss; empty: the task's default
  std::string predictions = "";
};

struct LoggingOptions {
  std::int64_t every = 0;  // steps; 0: a line per epoch only
  bool verbose = false;
  std::string metrics = "";
  std::string tensorboard = "";
  std::string result = "";
};

struct MachineOptions {
  std::string device = "auto";
  std::int64_t threads = 0;  // of each worker; 0: OMP_NUM_THREADS, else 1
};

struct GroupOptions {
  std::string init_method = "env://";
  std::int64_t rank = -1, world_size = -1;  // -1: RANK, WORLD_SIZE
  std::int64_t timeout = 1800;              // seconds
  double bucket_mib = 0;                    // size of a gradient bucket; 0: PyTorch's
};

struct Options {
  ModelOptions model = {};
  DataOptions data = {};
  OptimizerOptions optimizer = {};
  ScheduleOptions schedule = {};
  TrainingOptions training = {};
  SavingOptions snapshot = {};
  EvaluationOptions evaluation = {};
  LoggingOptions logging = {};
  MachineOptions machine = {};
  GroupOptions group = {};
};

}  // namespace ddprun::train

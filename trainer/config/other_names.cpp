#include "trainer/config/other_names.h"

#include <array>

#include "launcher/settings/member.h"

namespace ddprun::train {
namespace {

using settings::Group;
using settings::Option;

constexpr Group kElsewhere{"elsewhere", "Names in other programs", Group::hidden};

struct OtherNames {
  const char* key;
  const char* sets;  // the value that a flag sets; empty: they take a value
  std::array<const char*, 8> names;
  const char* sets_off = "";  // the value that a flag sets as false; empty: it cannot be false
};

constexpr OtherNames kOtherNames[] = {
    {"training.epochs", "", {"epochs", "total-epochs", "max-epochs", "num-epochs", "num-train-epochs", "n-epochs"}},
    {"training.accumulate",
     "",
     {"gradient-accumulation-steps", "accumulate-grad-batches", "accumulation-steps", "grad-accum"}},
    {"training.clip_norm", "", {"clip-grad-norm", "max-grad-norm", "grad-norm-clip", "gradient-clip-val", "clip-grad"}},
    {"training.precision", "fp16", {"amp", "use-amp", "fp16"}, "float"},
    {"training.precision", "bf16", {"bf16"}, "float"},
    {"training.seed", "", {"manual-seed", "random-seed"}},
    {"training.deterministic", "true", {"use-deterministic-algorithms"}, "false"},
    {"data.name", "synthetic", {"dummy", "fake-data"}},
    {"data.folder", "", {"data-path", "data-dir", "data-root", "dataroot", "root"}},
    {"data.batch_size", "", {"train-batch-size", "per-device-train-batch-size", "mini-batch-size"}},
    {"data.workers", "", {"num-workers", "dataloader-num-workers"}},
    {"model.name", "", {"arch", "net", "network"}},
    {"model.init", "", {"weights"}},
    {"model.sync_batch_norm", "true", {"sync-batchnorm", "sync-batch-norm", "syncbn"}, "false"},
    {"optimizer.name", "", {"opt", "optim"}},
    {"optimizer.lr", "", {"learning-rate", "base-lr", "initial-lr", "init-lr"}},
    {"optimizer.weight_decay", "", {"wd"}},
    {"optimizer.beta1", "", {"beta1", "adam-beta1"}},
    {"optimizer.beta2", "", {"beta2", "adam-beta2"}},
    {"optimizer.eps", "", {"eps", "adam-epsilon"}},
    {"schedule.name", "", {"lr-scheduler", "lr-scheduler-type", "scheduler", "lr-schedule"}},
    {"schedule.warmup", "", {"lr-warmup-epochs", "warmup-epochs"}},
    {"schedule.step_size", "", {"lr-step-size", "step-size"}},
    {"schedule.gamma", "", {"gamma", "lr-gamma"}},
    {"schedule.min_lr", "", {"lr-min", "min-lr"}},
    {"snapshot.path",
     "",
     {"snapshot-path", "resume", "resume-from", "checkpoint", "checkpoint-path", "ckpt", "ckpt-path"}},
    {"snapshot.every_epochs", "", {"save-every", "save-freq", "save-interval"}},
    {"snapshot.keep", "", {"save-total-limit"}},
    {"evaluation.every", "", {"eval-freq", "eval-every", "val-freq", "check-val-every-n-epoch"}},
    {"evaluation.patience", "", {"early-stopping-patience"}},
    {"logging.every", "", {"log-interval", "log-freq", "print-freq", "logging-steps", "log-every-n-steps"}},
    {"machine.device", "cpu", {"no-cuda", "no-accel", "no-gpu", "cpu"}, "auto"},
    {"machine.device", "cuda", {"cuda", "use-cuda"}, "cpu"},
    {"group.init_method", "", {"dist-url"}},
};

struct Unsupported {
  std::array<const char*, 8> names;
  const char* value;  // empty: a flag
  const char* what_to_do;
};

constexpr Unsupported kUnsupported[] = {
    {{"backend", "dist-backend", "distributed-backend"},
     "NAME",
     "follows from the device: pass --device cuda for NCCL, or --device cpu for gloo."},
    {{"gpus", "gpu", "gpu-id", "num-gpus", "ngpus", "nproc", "devices"},
     "N",
     "is given to the launcher, which starts a worker for each GPU: ddprun --nproc_per_node=N train."},
    {{"nproc-per-node", "nnodes", "node-rank", "master-addr", "master-port", "max-restarts"},
     "X",
     "is an option of ddprun: write it before the program, as in ddprun --nproc_per_node=2 train."},
    {{"multiprocessing-distributed", "distributed", "ddp"},
     "",
     "is what the launcher does: ddprun --nproc_per_node=N train starts N ranks."},
    {{"local-rank"}, "N", "comes from the environment, as LOCAL_RANK: leave it out."},
    {{"start-epoch"}, "N", "comes from the snapshot, after whose last epoch a run goes on: leave it out."},
    {{"test-only", "eval-only"},
     "",
     "needs no mode of its own: with --result or --predictions a finished run is evaluated when it is started again."},
    {{"pretrained"}, "", "comes without weights: name a file of them with --init, or with --transfer to take a part."},
    {{"test-batch-size", "val-batch-size", "eval-batch-size", "per-device-eval-batch-size"},
     "N",
     "changes no result: train chooses the batches of an evaluation itself; leave it out."},
    {{"download"}, "", "is not possible: fetch the files of the data set, and name their folder with --data."},
    {{"save-model"}, "", "needs a name: --publish FILE writes the weights at the end; a snapshot is always written."},
    {{"output-dir", "save-dir", "checkpoint-dir", "out-dir"},
     "FOLDER",
     "names a folder, and train takes the name of a file: pass --snapshot FOLDER/snapshot.pt."},
    {{"dry-run"}, "", "is not needed: --print-config shows the settings, and `train 1 --dataset synthetic` is quick."},
    {{"config-name", "config-path", "config-dir"}, "NAME", "is hydra's: name a file with --config FILE, in TOML."},
    {{"multirun"}, "", "is hydra's: start train once for each value, as a loop of the shell does."},
    {{"no-mps", "mps"}, "", "is for Apple's GPUs, which train does not use: leave it out."},
};

// A flag's value is checked as that of a flag: the setting that it stands for takes another one.
Option hidden_row(const char* name, const char* value, settings::OptionExtras extras) {
  return {extras, name, &kElsewhere,
          value,  "",   *extras.sets ? settings::Member{settings::check_flag} : settings::Member()};
}

}  // namespace

std::vector<Option> other_names() {
  std::vector<Option> rows;
  for (const OtherNames& other : kOtherNames)
    for (const char* name : other.names)
      if (name) {
        rows.push_back(hidden_row(name, *other.sets ? "" : "X",
                                  {.stands_for = other.key, .sets = other.sets, .sets_off = other.sets_off}));
      }
  for (const Unsupported& unsupported : kUnsupported)
    for (const char* name : unsupported.names)
      if (name) rows.push_back(hidden_row(name, unsupported.value, {.refusal = unsupported.what_to_do}));
  return rows;
}

}  // namespace ddprun::train

// The table of `train`'s settings, section by section as in a configuration file.
#include "trainer/config/settings.h"

#include <algorithm>
#include <array>

#include "launcher/settings/member.h"
#include "trainer/config/other_names.h"
#include "trainer/data/data_spec.h"
#include "trainer/models/model_names.h"

namespace ddprun::train {
namespace {

using namespace settings;

constexpr double kIndexMax = 2147483647;
constexpr double kSeedMax = 9223372036854774784.;  // a TOML file's numbers are below 2^63

constexpr Group kTraining{"training", "Training"};
constexpr Group kData{"data", "Data"};
constexpr Group kModel{"model", "Model"};
constexpr Group kOptimizer{"optimizer", "Optimizer"};
constexpr Group kSchedule{"schedule", "Schedule"};
constexpr Group kSnapshot{"snapshot", "Snapshots"};
constexpr Group kEvaluation{"evaluation", "Evaluation"};
constexpr Group kLogging{"logging", "Logging"};
constexpr Group kMachine{"machine", "Machine"};
constexpr Group kGroup{"group", "Ranks started by hand"};
constexpr Group kItself{"train", "Settings, help", Group::actions};
constexpr const Group* kGroups[] = {&kTraining,   &kData,    &kModel,   &kOptimizer, &kSchedule, &kSnapshot,
                                    &kEvaluation, &kLogging, &kMachine, &kGroup,     &kItself};

// Empty: the default for the data or the model.
const char* model_choices() {
  static const std::string kNames = [] {
    std::string names;
    for (const ModelName& model : model_names()) names += std::string("|") + model.name;
    return names;
  }();
  return kNames.c_str();
}

const char* dataset_choices() {
  static const std::string kNames = [] {
    std::string names;
    for (const char* name : kDatasetNames) names += std::string("|") + name;
    return names;
  }();
  return kNames.c_str();
}

Option row(const char* key, const char* name, const char* value, const char* help, Member member,
           OptionExtras extras = {}) {
  const std::string_view section = std::string_view(key).substr(0, std::string_view(key).find('.')), takes = value;
  if (takes == "FILE") extras.completes = Completes::file;
  if (takes == "FOLDER") extras.completes = Completes::folder;
  const auto group =
      std::find_if(std::begin(kGroups), std::end(kGroups), [&](auto* one) { return one->name == section; });
  return {extras, name, *group, value, help, member, key};
}

const auto& rows() {
  static const auto kRows = std::to_array<Option>({
      row("training.epochs", "total_epochs", "N", "total epochs of the run, including those before a resume",
          at<&Options::training, &TrainingOptions::epochs>(), {.positional = true, .min = 1, .max = kIndexMax}),
      row("training.accumulate", "accumulate", "N", "passes whose gradients are accumulated for one step",
          at<&Options::training, &TrainingOptions::accumulate>(), {.min = 1, .max = kIndexMax}),
      row("training.clip_norm", "clip-norm", "X", "largest norm of all gradients together; 0: no limit",
          at<&Options::training, &TrainingOptions::clip_norm>(), {.min = 0}),
      row("training.clip_value", "clip-value", "X", "largest value of a gradient; 0: no limit",
          at<&Options::training, &TrainingOptions::clip_value>(), {.min = 0}),
      row("training.skip_bad_losses", "skip-bad-losses", "N",
          "steps in a row that may be skipped because a rank's loss is not finite; 0: the first one ends the run",
          at<&Options::training, &TrainingOptions::skip_bad_losses>(), {.min = 0, .max = kIndexMax}),
      row("training.precision", "precision", "TYPE", "float, bf16, or fp16 (with a scaler)",
          at<&Options::training, &TrainingOptions::precision>(), {.choices = "float|bf16|fp16"}),
      row("training.init_scale", "", "X", "with fp16: the gradient scaler's initial scale",
          at<&Options::training, &TrainingOptions::init_scale>(), {.min = 0, .above_min = true}),
      row("training.seed", "seed", "N", "seed of the initial weights, the order of the samples, crops and dropout",
          at<&Options::training, &TrainingOptions::seed>(), {.min = 0, .max = kSeedMax}),
      row("training.deterministic", "deterministic", "", "refuse operations whose results may differ from run to run",
          at<&Options::training, &TrainingOptions::deterministic>()),
      row("training.channels_last", "channels-last", "",
          "images and convolutions lie in memory with the channels last, which is often faster",
          at<&Options::training, &TrainingOptions::channels_last>()),
      row("training.cudnn_benchmark", "cudnn-benchmark", "", "on a GPU: take the fastest convolution by trying them",
          at<&Options::training, &TrainingOptions::cudnn_benchmark>()),
      row("training.float32_matmul", "float32-matmul", "TYPE",
          "precision of multiplying float matrices: highest, high (TF32) or medium",
          at<&Options::training, &TrainingOptions::float32_matmul>(), {.choices = "highest|high|medium"}),
      row("training.cuda_graph", "cuda-graph", "",
          "on a GPU: repeat a step's kernels by one call, a CUDA graph; implies --fused",
          at<&Options::training, &TrainingOptions::cuda_graph>()),

      row("data.name", "dataset", "NAME",
          "digits (8x8, comes with ddprun), mnist, cifar10, text (one comes with ddprun), synthetic, toy, or shards",
          at<&Options::data, &DataOptions::name>(), {.choices = dataset_choices()}),
      row("data.folder", "data", "FOLDER", "folder of its files; by default found by the data set's name",
          at<&Options::data, &DataOptions::folder>()),
      row("data.batch_size", "batch-size", "N", "samples per pass on each rank",
          at<&Options::data, &DataOptions::batch_size>(), {.letter = 'b', .min = 1, .max = kIndexMax}),
      row("data.workers", "workers", "N",
          "threads of each rank that prepare batches in advance; 0: none, on a GPU up to four",
          at<&Options::data, &DataOptions::workers>(), {.letter = 'j', .min = 0, .max = 256}),
      row("data.shuffle_seed", "shuffle-seed", "N", "seed of the order of the samples; by default that of everything",
          at<&Options::data, &DataOptions::shuffle_seed>(), {.min = 0, .max = kSeedMax}),
      row("data.mixed_shards", "", "N", "with shards: how many of them each rank shuffles together",
          at<&Options::data, &DataOptions::mixed_shards>(), {.min = 1, .max = 64}),
      row("data.augment", "augment", "", "pad images with zeros, crop them at random, and flip them",
          at<&Options::data, &DataOptions::augment>()),
      row("data.normalise", "normalise", "", "subtract the data set's mean, divide by its standard deviation",
          at<&Options::data, &DataOptions::normalise>()),
      row("data.context", "context", "N", "characters in a sample of text", at<&Options::data, &DataOptions::context>(),
          {.min = 1, .max = 1e6}),
      row("data.stride", "", "N", "characters from one sample of text to the next; 0: a quarter of a sample",
          at<&Options::data, &DataOptions::stride>(), {.min = 0, .max = kIndexMax}),
      row("data.samples", "", "N", "with synthetic: number of images to train on",
          at<&Options::data, &DataOptions::samples>(), {.min = 1, .max = kIndexMax}),
      row("data.channels", "", "N", "with synthetic: channels of an image",
          at<&Options::data, &DataOptions::channels>(), {.min = 1, .max = 1024}),
      row("data.height", "", "N", "with synthetic: height of an image", at<&Options::data, &DataOptions::height>(),
          {.min = 1, .max = 65536}),
      row("data.width", "", "N", "with synthetic: width of an image", at<&Options::data, &DataOptions::width>(),
          {.min = 1, .max = 65536}),
      row("data.classes", "", "N", "with synthetic: number of classes", at<&Options::data, &DataOptions::classes>(),
          {.min = 2, .max = 1e6}),

      row("model.name", "model", "NAME", "model; by default the one for the data",
          at<&Options::model, &ModelOptions::name>(), {.letter = 'a', .choices = model_choices()}),
      row("model.head", "head", "KIND",
          "small, for images of 32 by 32, or imagenet, torchvision's own (vgg11_bn, resnets)",
          at<&Options::model, &ModelOptions::head>(), {.choices = "small|imagenet"}),
      row("model.width_divisor", "", "N", "channels of vgg11_bn and the resnets divided by N",
          at<&Options::model, &ModelOptions::width_divisor>(), {.min = 1, .max = 64}),
      row("model.layers", "layers", "N", "blocks of gpt", at<&Options::model, &ModelOptions::layers>(),
          {.min = 1, .max = 1000}),
      row("model.heads", "heads", "N", "attention heads of each block of gpt",
          at<&Options::model, &ModelOptions::heads>(), {.min = 1, .max = 1000}),
      row("model.embedding", "embedding", "N", "embedding size of gpt", at<&Options::model, &ModelOptions::embedding>(),
          {.min = 1, .max = 65536}),
      row("model.dropout", "dropout", "P", "dropout probability of gpt", at<&Options::model, &ModelOptions::dropout>(),
          {.min = 0, .max = 0.999999}),
      row("model.sync_batch_norm", "sync-bn", "", "batch norm over the samples of all ranks (SyncBatchNorm)",
          at<&Options::model, &ModelOptions::sync_batch_norm>()),
      row("model.no_broadcast_buffers", "no-broadcast-buffers", "",
          "each rank keeps its own buffers, such as batch norm's statistics, and evaluates with them",
          at<&Options::model, &ModelOptions::no_broadcast_buffers>()),
      row("model.init", "init", "FILE",
          "start from these weights: a file of PyTorch or safetensors, a folder of them, or a snapshot",
          at<&Options::model, &ModelOptions::init>()),
      row("model.transfer", "transfer", "FILE", "start from those weights of FILE that fit, and report the others",
          at<&Options::model, &ModelOptions::transfer>()),
      row("model.skip", "skip", "PREFIX",
          "with --init or --transfer: do not load weights whose names begin with PREFIX",
          at<&Options::model, &ModelOptions::skip>()),
      row("model.train_only", "train-only", "PREFIX",
          "freeze all weights except those whose names begin with PREFIX, such as fc.",
          at<&Options::model, &ModelOptions::train_only>()),

      row("optimizer.name", "optimizer", "NAME", "sgd, adam or adamw; for gpt adamw is the default",
          at<&Options::optimizer, &OptimizerOptions::name>(), {.choices = "sgd|adam|adamw"}),
      row("optimizer.lr", "lr", "X", "learning rate; by default 0.05 for sgd, 0.001 for the others, 0.003 for gpt",
          at<&Options::optimizer, &OptimizerOptions::lr>(), {.min = 0, .above_min = true}),
      row("optimizer.momentum", "momentum", "X", "momentum of sgd",
          at<&Options::optimizer, &OptimizerOptions::momentum>(), {.min = 0, .max = 0.999999}),
      row("optimizer.nesterov", "nesterov", "", "use Nesterov momentum (sgd)",
          at<&Options::optimizer, &OptimizerOptions::nesterov>()),
      row("optimizer.weight_decay", "weight-decay", "X", "weight decay, for all weights",
          at<&Options::optimizer, &OptimizerOptions::weight_decay>(), {.min = 0}),
      row("optimizer.fused", "fused", "", "step all weights in one kernel, which is faster (fused=True of PyTorch)",
          at<&Options::optimizer, &OptimizerOptions::fused>()),
      row("optimizer.beta1", "", "X", "first beta of adam and adamw",
          at<&Options::optimizer, &OptimizerOptions::beta1>(), {.min = 0, .max = 0.999999}),
      row("optimizer.beta2", "", "X", "second beta of adam and adamw",
          at<&Options::optimizer, &OptimizerOptions::beta2>(), {.min = 0, .max = 0.999999}),
      row("optimizer.eps", "", "X", "epsilon of adam and adamw", at<&Options::optimizer, &OptimizerOptions::eps>(),
          {.min = 0, .above_min = true}),

      row("schedule.name", "schedule", "NAME", "learning rate schedule: constant, step, cosine, linear or exponential",
          at<&Options::schedule, &ScheduleOptions::name>(), {.choices = "constant|step|cosine|linear|exponential"}),
      row("schedule.unit", "schedule-unit", "UNIT", "whether the schedule counts epochs or steps",
          at<&Options::schedule, &ScheduleOptions::unit>(), {.choices = "epoch|step"}),
      row("schedule.warmup", "warmup", "N", "units over which the rate first rises linearly",
          at<&Options::schedule, &ScheduleOptions::warmup>(), {.min = 0, .max = kIndexMax}),
      row("schedule.step_size", "", "N", "with step: units from one drop of the rate to the next",
          at<&Options::schedule, &ScheduleOptions::step_size>(), {.min = 1, .max = kIndexMax}),
      row("schedule.gamma", "", "X", "with step and exponential: what the rate is multiplied by",
          at<&Options::schedule, &ScheduleOptions::gamma>(), {.min = 0, .above_min = true}),
      row("schedule.min_lr", "", "X", "with cosine and linear: the rate at the end",
          at<&Options::schedule, &ScheduleOptions::min_lr>(), {.min = 0}),

      row("snapshot.path", "snapshot", "FILE",
          "file to resume from and to write, by default snapshot-MODEL-DATA.pt; its folder is made if missing, and "
          "older ones stay beside it as FILE-g1-s120.pt (step 120)",
          at<&Options::snapshot, &SavingOptions::path>()),
      row("snapshot.every_epochs", "save_every", "N", "epochs between two snapshots",
          at<&Options::snapshot, &SavingOptions::every_epochs>(), {.positional = true, .min = 1, .max = kIndexMax}),
      row("snapshot.every_steps", "save-steps", "N", "write the snapshot also every N steps; 0: no",
          at<&Options::snapshot, &SavingOptions::every_steps>(), {.min = 0, .max = kIndexMax}),
      row("snapshot.memory_steps", "memory-steps", "N",
          "under ddprun --memory-snapshots: keep a snapshot in memory after every N steps; 0: only with each file; -1: "
          "each, on a GPU as many as cost 2 % of the time",
          at<&Options::snapshot, &SavingOptions::memory_steps>(), {.min = -1, .max = kIndexMax}),
      row("snapshot.keep", "keep", "N", "how many snapshots to keep, including the newest",
          at<&Options::snapshot, &SavingOptions::keep>(), {.min = 1, .max = kIndexMax}),
      row("snapshot.fresh", "fresh", "",
          "start over: an existing snapshot is renamed to FILE.old. A restart by the launcher still resumes what "
          "this run wrote",
          at<&Options::snapshot, &SavingOptions::fresh>()),
      row("snapshot.best", "best", "BY",
          "keep also the best evaluated snapshot, as snapshot-best.pt: by accuracy, by loss, or none",
          at<&Options::snapshot, &SavingOptions::best>(), {.choices = "none|accuracy|loss"}),
      row("snapshot.publish", "publish", "FILE",
          "write the weights alone at the end, the best ones with --best: as safetensors if FILE ends in .safetensors, "
          "else as a state_dict",
          at<&Options::snapshot, &SavingOptions::publish>()),

      row("evaluation.every", "evaluate-every", "N", "evaluate on the test set every N epochs, and after the last",
          at<&Options::evaluation, &EvaluationOptions::every>(), {.min = 1, .max = kIndexMax}),
      row("evaluation.patience", "patience", "N",
          "stop early after N evaluations in a row that were no better than the best; 0: never",
          at<&Options::evaluation, &EvaluationOptions::patience>(), {.min = 0, .max = kIndexMax}),
      row("evaluation.by", "judge-by", "BY",
          "measure for --patience: accuracy or loss; by default accuracy for images, else loss",
          at<&Options::evaluation, &EvaluationOptions::by>(), {.choices = "|accuracy|loss"}),
      row("evaluation.predictions", "predictions", "FILE",
          "write the predictions of the last evaluation, one line for each sample of the test set, in order",
          at<&Options::evaluation, &EvaluationOptions::predictions>()),

      row("logging.every", "log-every", "N", "print the loss every N steps, one line each; 0 prints epochs only",
          at<&Options::logging, &LoggingOptions::every>(), {.letter = 'p', .min = 0, .max = kIndexMax}),
      row("logging.verbose", "verbose", "", "print each rank's part of an evaluation: n_correct of n_obs",
          at<&Options::logging, &LoggingOptions::verbose>(), {.letter = 'v'}),
      row("logging.metrics", "metrics", "FILE",
          "write a line of JSON for each epoch, and for each step that --log-every prints",
          at<&Options::logging, &LoggingOptions::metrics>()),
      row("logging.tensorboard", "tensorboard", "FOLDER", "write the same as event files for TensorBoard",
          at<&Options::logging, &LoggingOptions::tensorboard>()),
      row("logging.result", "result", "FILE", "write rank 0's final numbers as one JSON object, for a script",
          at<&Options::logging, &LoggingOptions::result>()),

      row("machine.device", "device", "DEVICE",
          "auto (a GPU per worker where there are GPUs, over NCCL), cpu (over gloo) or cuda",
          at<&Options::machine, &MachineOptions::device>(), {.choices = "auto|cpu|cuda"}),
      row("machine.threads", "threads", "N",
          "CPU threads of each worker; 0: OMP_NUM_THREADS, else 1. Large models need more",
          at<&Options::machine, &MachineOptions::threads>(), {.min = 0, .max = 4096}),

      row("group.init_method", "init-method", "URL",
          "where ranks that were started by hand meet: tcp://HOST:PORT or file:///PATH",
          at<&Options::group, &GroupOptions::init_method>()),
      row("group.rank", "rank", "R", "rank of this process, if started by hand",
          at<&Options::group, &GroupOptions::rank>(), {.min = 0, .max = kIndexMax}),
      row("group.world_size", "world-size", "W", "how many ranks are started by hand",
          at<&Options::group, &GroupOptions::world_size>(), {.min = 1, .max = kIndexMax}),
      row("group.timeout", "timeout", "SECONDS", "time limit for the others to join, and for each collective",
          at<&Options::group, &GroupOptions::timeout>(), {.min = 1, .max = kIndexMax}),
      row("group.bucket_mib", "", "X", "size of a gradient bucket in MiB; 0: 1 for the first, 25 for the others",
          at<&Options::group, &GroupOptions::bucket_mib>(), {.min = 0, .max = 65536}),

      settings::row(kItself, "config", "FILE", "TOML file with any of these values", {},
                    {.completes = Completes::file}),
      settings::row(kItself, "set", "KEY=VALUE", "set one value by its name in a file: --set optimizer.lr=0.1"),
      settings::row(kItself, "print-config", "", "print every value in force and where it came from, and exit"),
      settings::row(kItself, "print-completion", "SHELL", "print the completion of train for bash, zsh or tcsh",
                    {check_choice}, {.choices = "bash|zsh|tcsh"}),
      settings::row(kItself, "version", "", "print the version of train", {}, {.letter = 'V'}),
      settings::row(kItself, "help", "", "print this", {}, {.letter = 'h'}),
  });
  return kRows;
}

// Another value of these does not change the result of the run.
bool does_not_change_result(const std::string& key) {
  for (const char* section : {"snapshot.", "evaluation.", "logging.", "machine.", "group."})
    if (key.starts_with(section)) return true;
  constexpr const char* kKeys[] = {"data.folder", "data.workers", "training.epochs", "training.deterministic",
                                   "training.cudnn_benchmark"};
  return std::find(std::begin(kKeys), std::end(kKeys), key) != std::end(kKeys);
}

}  // namespace

const Table& setting_table() {
  static const Options kDefaults;
  static const std::vector<Option> kAll = [] {
    std::vector<Option> all(rows().begin(), rows().end());
    for (const Option& option : other_names()) all.push_back(option);
    return all;
  }();
  static const Table kTable{"train", kAll, kGroups, &kDefaults};
  return kTable;
}

std::vector<const Option*> all_settings() {
  std::vector<const Option*> all;
  for (const Option& option : setting_table().options)
    if (in_file(option)) all.push_back(&option);
  return all;
}

bool may_differ_between_ranks(const std::string& key) {
  constexpr const char* kKeys[] = {"group.rank",    "group.init_method", "data.folder",           "data.workers",
                                   "snapshot.path", "snapshot.publish",  "machine.device",        "machine.threads",
                                   "model.init",    "model.transfer",    "evaluation.predictions"};
  return key.starts_with("logging.") || std::find(std::begin(kKeys), std::end(kKeys), key) != std::end(kKeys);
}

bool changes_result(const Option& option) { return !does_not_change_result(option.key); }

std::string text_of(const Option& option, const Options& options) { return option.member.get(&options, option); }

}  // namespace ddprun::train

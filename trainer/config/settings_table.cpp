#include "trainer/config/settings.h"
#include "trainer/data/data_spec.h"
#include "trainer/models/model_names.h"

namespace ddprun {
namespace {

constexpr double kAnything = -std::numeric_limits<double>::infinity();
constexpr double kNoEnd = std::numeric_limits<double>::infinity();
constexpr double kIndexMax = 2147483647;
constexpr double kSeedMax = 9223372036854774784.;  // a TOML file's numbers end at 2^63

// A member of a section.
#define AT(section, member) [](Options& o) -> Place { return &o.section.member; }

std::vector<std::string> model_choices() {
  std::vector<std::string> names{""};
  for (const ModelName& model : model_names()) names.emplace_back(model.name);
  return names;
}

std::vector<std::string> dataset_choices() {
  std::vector<std::string> names{""};
  names.insert(names.end(), std::begin(kDatasetNames), std::end(kDatasetNames));
  return names;
}

std::vector<SettingRow> model_rows() {
  return {
      {"model.name", "--model", "NAME", "Model; without it the one that goes with the data", AT(model, name), kAnything,
       kNoEnd, false, model_choices()},
      {"model.head",
       "--head",
       "KIND",
       "small, for images of 32 by 32, or imagenet, torchvision's own (vgg11_bn, resnet18)",
       AT(model, head),
       kAnything,
       kNoEnd,
       false,
       {"small", "imagenet"}},
      {"model.width_divisor", "", "N", "Channels of vgg11_bn and resnet18 divided by N", AT(model, width_divisor), 1,
       64},
      {"model.layers", "--layers", "N", "Blocks of gpt", AT(model, layers), 1, 1000},
      {"model.heads", "--heads", "N", "Attention heads of each block of gpt", AT(model, heads), 1, 1000},
      {"model.embedding", "--embedding", "N", "Numbers that gpt keeps of each character", AT(model, embedding), 1,
       65536},
      {"model.dropout", "--dropout", "P", "Share of gpt's numbers that is left out while training", AT(model, dropout),
       0, 0.999999},
      {"model.sync_batch_norm", "--sync-bn", "", "Batch norm over the samples of all ranks (SyncBatchNorm)",
       AT(model, sync_batch_norm)},
      {"model.init", "--init", "FILE",
       "Begin with these weights: a state_dict of PyTorch, a safetensors file, or a snapshot", AT(model, init)},
      {"model.transfer", "--transfer", "FILE", "Begin with those weights of FILE that fit, and report the others",
       AT(model, transfer)},
      {"model.skip", "--skip", "PREFIX",
       "With --init or --transfer: weights whose names begin so stay as they are drawn", AT(model, skip)},
      {"model.train_only", "--train-only", "PREFIX", "Freeze all weights but those whose names begin so: fc.",
       AT(model, train_only)},
  };
}

std::vector<SettingRow> data_rows() {
  return {
      {"data.name", "--dataset", "NAME",
       "digits (8x8, comes with ddprun), mnist, cifar10, text (one comes with ddprun), synthetic, or toy",
       AT(data, name), kAnything, kNoEnd, false, dataset_choices()},
      {"data.folder",
       "--data",
       "FOLDER",
       "Where its files are; by default looked up by the data set's name",
       AT(data, folder),
       kAnything,
       kNoEnd,
       false,
       {},
       false},
      {"data.batch_size", "--batch-size", "N", "Samples per pass on each rank", AT(data, batch_size), 1, kIndexMax},
      {"data.workers",
       "--workers",
       "N",
       "Threads of each rank that make batches ahead; 0: none",
       AT(data, workers),
       0,
       256,
       false,
       {},
       false},
      {"data.augment", "--augment", "", "Crop images at random out of a frame of zeros, and flip them",
       AT(data, augment)},
      {"data.normalise", "--normalise", "", "Subtract the data set's mean, divide by its deviation",
       AT(data, normalise)},
      {"data.context", "--context", "N", "Characters of a sample of text", AT(data, context), 1, 1e6},
      {"data.stride", "", "N", "Characters from one sample of text to the next; 0: a quarter of a sample",
       AT(data, stride), 0, kIndexMax},
      {"data.samples", "", "N", "Of synthetic: images to train on", AT(data, samples), 1, kIndexMax},
      {"data.channels", "", "N", "Of synthetic: channels of an image", AT(data, channels), 1, 1024},
      {"data.height", "", "N", "Of synthetic: its height", AT(data, height), 1, 65536},
      {"data.width", "", "N", "Of synthetic: its width", AT(data, width), 1, 65536},
      {"data.classes", "", "N", "Of synthetic: classes", AT(data, classes), 2, 1e6},
  };
}

std::vector<SettingRow> optimizer_rows() {
  return {
      {"optimizer.name",
       "--optimizer",
       "NAME",
       "sgd, adam or adamw; without it adamw for gpt",
       AT(optimizer, name),
       kAnything,
       kNoEnd,
       false,
       {"sgd", "adam", "adamw"}},
      {"optimizer.lr", "--lr", "X", "Learning rate; without it 0.05 for sgd, 0.001 for the others, 0.003 for gpt",
       AT(optimizer, lr), 0, kNoEnd, true},
      {"optimizer.momentum", "--momentum", "X", "Of sgd", AT(optimizer, momentum), 0, 0.999999},
      {"optimizer.nesterov", "--nesterov", "", "Of sgd: Nesterov's momentum", AT(optimizer, nesterov)},
      {"optimizer.weight_decay", "--weight-decay", "X", "Pull of all weights towards 0", AT(optimizer, weight_decay),
       0},
      {"optimizer.beta1", "", "X", "Of adam and adamw", AT(optimizer, beta1), 0, 0.999999},
      {"optimizer.beta2", "", "X", "Of adam and adamw", AT(optimizer, beta2), 0, 0.999999},
      {"optimizer.eps", "", "X", "Of adam and adamw", AT(optimizer, eps), 0, kNoEnd, true},
      {"schedule.name",
       "--schedule",
       "NAME",
       "Of the learning rate: constant, step, cosine, linear or exponential",
       AT(schedule, name),
       kAnything,
       kNoEnd,
       false,
       {"constant", "step", "cosine", "linear", "exponential"}},
      {"schedule.unit",
       "--schedule-unit",
       "UNIT",
       "Whether the schedule counts epochs or steps",
       AT(schedule, unit),
       kAnything,
       kNoEnd,
       false,
       {"epoch", "step"}},
      {"schedule.warmup", "--warmup", "N", "Units in which the rate first rises in a line", AT(schedule, warmup), 0,
       kIndexMax},
      {"schedule.step_size", "", "N", "Of step: units from one fall of the rate to the next", AT(schedule, step_size),
       1, kIndexMax},
      {"schedule.gamma", "", "X", "Of step and exponential: what the rate is multiplied by", AT(schedule, gamma), 0,
       kNoEnd, true},
      {"schedule.min_lr", "", "X", "Of cosine and linear: the rate at the end", AT(schedule, min_lr), 0},
  };
}

std::vector<SettingRow> training_rows() {
  return {
      {"training.epochs",
       "total_epochs",
       "N",
       "Epochs the run has in all, those before a resume included",
       AT(training, epochs),
       1,
       kIndexMax,
       false,
       {},
       false},
      {"training.accumulate", "--accumulate", "N", "Passes whose gradients are added up for one step",
       AT(training, accumulate), 1, kIndexMax},
      {"training.clip_norm", "--clip-norm", "X", "Largest norm of all gradients together; 0: no limit",
       AT(training, clip_norm), 0},
      {"training.clip_value", "--clip-value", "X", "Largest value of a gradient; 0: no limit", AT(training, clip_value),
       0},
      {"training.skip_bad_losses", "--skip-bad-losses", "N",
       "Steps in a row that may be left out because a rank's loss is not finite; 0: the first one ends the run",
       AT(training, skip_bad_losses), 0, kIndexMax},
      {"training.precision",
       "--precision",
       "TYPE",
       "float, bf16, or fp16 (with a scaler)",
       AT(training, precision),
       kAnything,
       kNoEnd,
       false,
       {"float", "bf16", "fp16"}},
      {"training.init_scale", "", "X", "Of fp16: the scale that the scaler begins with", AT(training, init_scale), 0,
       kNoEnd, true},
      {"training.seed", "--seed", "N", "Decides the first weights, the order of the samples, crops and dropout",
       AT(training, seed), 0, kSeedMax},
      {"training.deterministic",
       "--deterministic",
       "",
       "Refuse operations whose results may differ from run to run",
       AT(training, deterministic),
       kAnything,
       kNoEnd,
       false,
       {},
       false},
  };
}

std::vector<SettingRow> record_rows() {
  std::vector<SettingRow> rows{
      {"snapshot.path", "--snapshot", "FILE",
       "File to resume from and to write; those before it stay beside it as snapshot-g1-s120.pt (step 120)",
       AT(snapshot, path)},
      {"snapshot.every_epochs", "save_every", "N", "Write the snapshot after every so many epochs",
       AT(snapshot, every_epochs), 1, kIndexMax},
      {"snapshot.every_steps", "--save-steps", "N", "Write it also after every so many steps; 0: no",
       AT(snapshot, every_steps), 0, kIndexMax},
      {"snapshot.keep", "--keep", "N", "How many snapshots stay, the newest among them", AT(snapshot, keep), 1,
       kIndexMax},
      {"snapshot.fresh", "--fresh", "",
       "Begin anew: an existing snapshot is put aside as FILE.old. A restart by the launcher still resumes what this "
       "run "
       "wrote",
       AT(snapshot, fresh)},
      {"snapshot.best",
       "--best",
       "BY",
       "Keep also the best one that was evaluated, as snapshot-best.pt: by accuracy, by loss, or none",
       AT(snapshot, best),
       kAnything,
       kNoEnd,
       false,
       {"none", "accuracy", "loss"}},
      {"snapshot.publish", "--publish", "FILE",
       "Write the weights alone at the end, the best ones with --best: as safetensors where FILE ends so, else as a "
       "state_dict",
       AT(snapshot, publish)},
      {"evaluation.every", "--evaluate-every", "N",
       "Look at the test set after every so many epochs, and after the last", AT(evaluation, every), 1, kIndexMax},
      {"evaluation.patience", "--patience", "N",
       "End early after so many evaluations in a row that were no better than the best; 0: never",
       AT(evaluation, patience), 0, kIndexMax},
      {"evaluation.by",
       "--judge-by",
       "BY",
       "What better means to --patience: accuracy or loss; without it accuracy for images, "
       "else loss",
       AT(evaluation, by),
       kAnything,
       kNoEnd,
       false,
       {"", "accuracy", "loss"}},
      {"evaluation.predictions", "--predictions", "FILE",
       "Write what the last evaluation saw, a line for each sample of the test set in its order",
       AT(evaluation, predictions)},
      {"logging.every", "--log-every", "N", "Print the loss every so many steps, one line each; 0 prints epochs only",
       AT(logging, every), 0, kIndexMax},
      {"logging.metrics", "--metrics", "FILE",
       "A JSON object a line for each epoch, and each step that --log-every names", AT(logging, metrics)},
      {"logging.tensorboard", "--tensorboard", "FOLDER", "The same as event files for TensorBoard",
       AT(logging, tensorboard)},
      {"logging.result", "--result", "FILE", "Rank 0's final numbers as one JSON object, for a script",
       AT(logging, result)},
      {"machine.device",
       "--device",
       "DEVICE",
       "auto (a GPU per worker where there are GPUs, over NCCL), cpu (over gloo) or cuda",
       AT(machine, device),
       kAnything,
       kNoEnd,
       false,
       {"auto", "cpu", "cuda"}},
      {"machine.threads", "--threads", "N",
       "CPU threads of each worker; 0: OMP_NUM_THREADS, else 1. Large models want more", AT(machine, threads), 0, 4096},
      {"group.init_method", "--init-method", "URL",
       "Where ranks that were started by hand meet: tcp://HOST:PORT or file:///PATH", AT(group, init_method)},
      {"group.rank", "--rank", "R", "Of a rank that was started by hand", AT(group, rank), 0, kIndexMax},
      {"group.world_size", "--world-size", "W", "How many ranks are started by hand", AT(group, world_size), 1,
       kIndexMax},
      {"group.timeout", "--timeout", "SECONDS", "For the others to join, and for each collective", AT(group, timeout),
       1, kIndexMax},
      {"group.bucket_mib", "", "X", "MiB of gradients that travel at once; 0: 1 for the first, 25 for the others",
       AT(group, bucket_mib), 0, 65536},
  };
  for (SettingRow& row : rows) row.same_run = false;
  return rows;
}

#undef AT

}  // namespace

const std::vector<SettingRow>& setting_rows() {
  static const std::vector<SettingRow> kRows = [] {
    std::vector<SettingRow> all;
    for (auto part : {training_rows(), data_rows(), model_rows(), optimizer_rows(), record_rows()})
      all.insert(all.end(), part.begin(), part.end());
    return all;
  }();
  return kRows;
}

}  // namespace ddprun

#include "trainer/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <sstream>

namespace ddprun {
namespace {

constexpr const char* kDescription =
    "Trains a model over DistributedDataParallel, in this process or in as many as a launcher starts:\n\n"
    "  train                                one process\n"
    "  ddprun --nproc_per_node=4 train      four, brought back from the last snapshot when one of them dies\n"
    "  train 50 10                          50 epochs, a snapshot after every 10th (and after the last)\n\n"
    "Runs that begin alike end alike, bit for bit: same seed, same number of ranks, same threads, killed in between or "
    "not.\n";

constexpr const char* kFooter =
    "\nOnly rank 0 prints. --log-every 1 shows 'epoch 2 step 17 loss 0.123456789' (rank 0's own loss); each epoch ends "
    "with the\n"
    "loss over the samples of all ranks and the accuracy over the whole test set.\n"
    "The snapshot is an ordinary PyTorch file: torch.load(\"snapshot.pt\", weights_only=True)[\"MODEL_STATE\"].\n"
    "Ends with 0 when all epochs are done, 2 for a command line that cannot work, 1 for everything else.";

void add_run(CLI::App& app, Options& o) {
  app.add_option("total_epochs", o.total_epochs, "Epochs the run has in all, those before a resume included")
      ->capture_default_str();
  app.add_option("save_every", o.save_every, "Write the snapshot after every so many epochs")->capture_default_str();
  app.add_option("--snapshot", o.snapshot,
                 "File to resume from and to write; those before it stay beside it as snapshot-g1-s120.pt (step 120)")
      ->type_name("FILE")
      ->capture_default_str();
  app.add_option("--save-steps", o.save_steps,
                 "Write it also after every so many steps, in the midst of an epoch; 0: no")
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--keep", o.keep, "How many snapshots stay, the newest among them")
      ->type_name("N")
      ->capture_default_str();
  app.add_flag("--fresh", o.fresh,
               "Begin anew: an existing snapshot is put aside as FILE.old. A restart by the launcher still resumes "
               "what this run wrote");
  app.add_option("--log-every", o.log_every, "Print the loss every so many steps, one line each; 0 prints epochs only")
      ->type_name("N")
      ->capture_default_str();
}

void add_training(CLI::App& app, Options& o) {
  app.add_option("--model", o.model,
                 "convnet: two 5x5 convolutions (16, 32 channels) with batch norm and pooling, one linear layer")
      ->capture_default_str();
  app.add_option("--dataset", o.dataset, "digits (8x8, comes with ddprun) or mnist (28x28, needs --data)")
      ->capture_default_str();
  app.add_option("--data", o.data,
                 "Folder with MNIST's four IDX files, gzipped or not; by default looked up by the data set's name")
      ->type_name("FOLDER");
  app.add_option("--batch-size", o.batch_size, "Samples per step on each rank")->capture_default_str();
  app.add_option("--lr", o.lr, "Learning rate of SGD")->capture_default_str();
  app.add_option("--momentum", o.momentum, "Momentum of SGD")->capture_default_str();
  app.add_option("--seed", o.seed, "Decides the first weights and the order of the samples")->capture_default_str();
  app.add_option("--init", o.init, "Begin with these weights instead: a state_dict saved by PyTorch, or a snapshot")
      ->type_name("FILE");
}

void add_machine(CLI::App& app, Options& o) {
  static const std::map<std::string, DeviceChoice> kDevices{
      {"auto", DeviceChoice::automatic}, {"cpu", DeviceChoice::cpu}, {"cuda", DeviceChoice::cuda}};
  app.add_option("--device", o.device,
                 "auto (a GPU per worker where there are GPUs, over NCCL), cpu (over gloo) or cuda")
      ->type_name("DEVICE")
      ->transform(CLI::CheckedTransformer(kDevices).description(""))
      ->default_str("auto");
  app.add_option("--threads", o.threads,
                 "CPU threads of each worker; 0: OMP_NUM_THREADS, else 1. Large models want more")
      ->type_name("N")
      ->capture_default_str();
}

}  // namespace

ParsedOptions parse_options(std::vector<std::string> arguments) {
  ParsedOptions result;
  CLI::App app(kDescription, "train");
  app.footer(kFooter);
  add_run(app, result.options);
  add_training(app, result.options);
  add_machine(app, result.options);
  std::reverse(arguments.begin(), arguments.end());  // CLI11 takes a vector from its end
  try {
    app.parse(arguments);
  } catch (const CLI::ParseError& error) {
    std::ostringstream out, err;
    const bool asked = app.exit(error, out, err) == 0;
    result.leave = asked ? Leave{0, out.str()}
                         : Leave{2, std::string("train: ") + error.what() + ". `train --help` lists what there is.\n"};
  }
  return result;
}

std::vector<std::string> problems(const Options& o) {
  std::vector<std::string> result;
  auto at_least = [&](const char* name, long value, long min) {
    if (value < min)
      result.push_back(std::string(name) + " is " + std::to_string(value) + " but must be at least " +
                       std::to_string(min) + ".");
  };
  at_least("total_epochs", o.total_epochs, 1);
  at_least("save_every", o.save_every, 1);
  at_least("--save-steps", o.save_steps, 0);
  at_least("--keep", o.keep, 1);
  at_least("--batch-size", o.batch_size, 1);
  at_least("--log-every", o.log_every, 0);
  at_least("--threads", o.threads, 0);
  if (!(o.lr > 0)) result.push_back("--lr must be above 0.");
  if (!(o.momentum >= 0 && o.momentum < 1)) result.push_back("--momentum must be at least 0 and below 1.");
  if (o.snapshot.empty()) result.push_back("--snapshot needs the name of a file.");
  return result;
}

}  // namespace ddprun

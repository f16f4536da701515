#include "trainer/config/command_line.h"

#include <algorithm>
#include <cctype>

#include "launcher/settings/argv_parser.h"
#include "launcher/settings/config_file.h"
#include "launcher/settings/help.h"
#include "launcher/settings/overrides.h"
#include "launcher/settings/paths.h"
#include "launcher/settings/yaml.h"
#include "rendezvous/base/spelling.h"
#include "rendezvous/base/version.h"
#include "trainer/config/snapshot_path.h"
#include "trainer/models/model_names.h"
#include "trainer/models/model_spec.h"

namespace ddprun::train {
namespace {

using settings::Setting;

constexpr const char* kDescription =
    R"(usage: train [total_epochs] [save_every] [options] [key=value ...]
       train tour|shards|write [options]
Trains a model over DistributedDataParallel, in this process or in several that
a launcher starts.

  train                     one process
  ddprun --nproc_per_node=4 train
                            four, restarted from the last snapshot when one dies
  train 50 10               50 epochs, a snapshot after every 10th and the last
  train tour                lists short demonstrations of what the ranks do
  train shards FROM TO      writes a data set of images as shards
  train write --prompt TEXT continues a text by the snapshot of a gpt

Runs with the same settings, number of ranks and threads give the same result,
bit for bit, killed in between or not; on a GPU with --deterministic.
)";

constexpr const char* kFooter = R"(
Every value can also be set in a file: --print-config shows all values and where
each came from, in the form that --config reads. ??? in a file stands for a
value that must be given. The command line overrides the file. A word such as
optimizer.lr=0.1, or lr=0.1, sets one value like --set. The names that options
have in PyTorch's examples work, too. Only rank 0 prints.
A snapshot is an ordinary PyTorch file:
  torch.load("digits.pt", weights_only=True)["MODEL_STATE"]
Exits with 0 when all epochs are done (or a launcher had it save and stop), 75
after SIGTERM when everything is saved, 2 for an invalid command line, 1 for
everything else.
)";

std::string help_text() {
  const settings::Table& table = setting_table();
  std::string text = kDescription;
  for (const settings::Group* group : table.groups)
    text += std::string("\n") + group->title + ":\n" + settings::help_entries(table, *group);
  text += "\nModels:\n";
  for (const ModelName& model : model_names()) text += settings::help_entry(model.name, model.help);
  return text + kFooter;
}

// --help, --version, --print-completion: what to print instead of training.
std::optional<EarlyExit> answer_to(const std::vector<Setting>& given, const std::string& commit) {
  const settings::Table& table = setting_table();
  if (in_force(given, option(table, "help"))) return EarlyExit{0, help_text()};
  if (in_force(given, option(table, "version"))) return EarlyExit{0, version_line("train", commit)};
  const Setting* shell = in_force(given, option(table, "print-completion"));
  const std::string script = shell ? settings::completion(table, shell->text) : "";
  return script.empty() ? std::nullopt : std::optional(EarlyExit{0, script});
}

// Options of a command line have no order, so each may be given only once; words KEY=VALUE have one.
void find_duplicates(const std::vector<Setting>& typed, std::vector<std::string>& mistakes) {
  for (auto one = typed.begin(); one != typed.end(); ++one)
    for (auto other = typed.begin(); other != one; ++other)
      if (other->option == one->option && !(one->overrides && other->overrides))
        mistakes.push_back(
            one->place +
            (one->place == other->place ? " is given twice" : " and " + other->place + " set the same value") +
            ": leave out one of them.");
}

void append(std::vector<std::string>& to, const std::vector<std::string>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

void read_file(const Setting& named, const ReadFile& read_file, std::vector<Setting>& given,
               std::vector<std::string>& mistakes) try {
  settings::ConfigFile file = settings::read_config_file(setting_table(), named.text, read_file(named.text));
  given.insert(given.begin(), file.settings.begin(), file.settings.end());
  append(mistakes, file.mistakes);
} catch (const std::exception& error) {
  mistakes.push_back("cannot read the configuration " + named.text + ": " + error.what() +
                     ". Name a TOML file, such as `train --print-config` prints.");
}

// For --config job.yaml: how to convert it, or with --print-config the TOML; empty: it is no YAML, or cannot be read.
std::optional<EarlyExit> answer_to_yaml(const std::vector<Setting>& given, const ReadFile& read_file) try {
  const settings::Table& table = setting_table();
  const std::string file = in_force(given, option(table, "config"))->text;
  if (!settings::is_yaml(file)) return {};
  const std::string toml = settings::toml_from_yaml(table, read_file(file));
  if (in_force(given, option(table, "print-config"))) return EarlyExit{0, toml};
  return EarlyExit{2, "train: " + visible(settings::yaml_refusal(file, table.program)) + "\n"};
} catch (const std::exception&) {
  return {};
}

// A tour's name, or a folder of data, is given in place of the number of epochs, or of those between two snapshots.
std::string remedy_for_word(const std::vector<Setting>& given, const std::string& key) {
  const Setting* number = in_force(given, *find_key(setting_table(), key));
  const bool word = number && number->option->positional && number->place == number->option->name;
  if (!word) return "";
  if (number->text.ends_with(".toml") || settings::is_yaml(number->text))
    return " A file of settings is named with --config: --config " + number->text + ".";
  if (number->text.find('/') != std::string::npos) return " The folder of a data set is named with --data.";
  return "";
}

// One at a time: the next ones often follow from the first.
EarlyExit refusal(const std::vector<std::string>& sentences) {
  return {2, "train: " + visible(sentences.front()) + "\n"};
}

// `train wriet --prompt x` has one mistake, however the words behind it read as options of training.
std::optional<EarlyExit> answer_to_wrong_verb(const std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments.front().empty() || !std::isalpha(static_cast<unsigned char>(arguments.front()[0])))
    return {};
  if (arguments.front().find_first_of("=./") != std::string::npos) return {};
  const std::string hint = did_you_mean(arguments.front(), {"tour", "shards", "write"});
  if (hint.empty()) return {};
  return refusal(
      {"'" + arguments.front() + "' is neither a number of epochs nor one of tour, shards and write." + hint});
}

// Instead of a value that the next run, of another model or other data, would have to change.
std::string by_default(const settings::Option& unset, const Options& options) {
  return std::string_view(unset.key) == "snapshot.path" ? "by default " + snapshot_path(options) : "";
}

bool is_given(const std::vector<Setting>& given, const std::string& key) {
  return std::any_of(given.begin(), given.end(),
                     [&](const Setting& one) { return std::string_view(one.option->key) == key; });
}

void choose_model_and_data(Options& o) {
  const ModelName* model = find_model(o.model.name);
  if (o.data.name.empty()) {
    const ModelInput input = model ? model->input : ModelInput::images;
    o.data.name = input == ModelInput::tokens ? "text" : input == ModelInput::features ? "toy" : "digits";
  }
  if (o.model.name.empty()) o.model.name = o.data.name == "text" ? "gpt" : o.data.name == "toy" ? "linear" : "convnet";
}

// Settings that only some runs use. A file may hold them for other runs, as --print-config writes them; on the command
// line they are mistakes.
struct ConditionalSettings {
  std::vector<std::string> keys;
  bool (*applies)(const Options&);
  const char* used_by;
};

const std::vector<ConditionalSettings>& conditional_settings() {
  static const std::vector<ConditionalSettings> kConditional{
      {{"model.layers", "model.heads", "model.embedding", "model.dropout"},
       [](const Options& o) { return o.model.name == "gpt"; },
       "the model gpt"},
      {{"model.head", "model.width_divisor"},
       [](const Options& o) { return has_variants(o.model.name); },
       "vgg11_bn and the resnets"},
      {{"data.context", "data.stride"}, [](const Options& o) { return o.data.name == "text"; }, "the data text"},
      {{"data.samples", "data.channels", "data.height", "data.width", "data.classes"},
       [](const Options& o) { return o.data.name == "synthetic"; },
       "the data synthetic"},
      {{"data.mixed_shards"}, [](const Options& o) { return o.data.name == "shards"; }, "the data shards"},
      {{"optimizer.momentum"}, [](const Options& o) { return o.optimizer.name == "sgd"; }, "the optimizer sgd"},
      {{"optimizer.beta1", "optimizer.beta2", "optimizer.eps"},
       [](const Options& o) { return o.optimizer.name != "sgd"; },
       "the optimizers adam and adamw"},
      {{"schedule.step_size"}, [](const Options& o) { return o.schedule.name == "step"; }, "the schedule step"},
      {{"schedule.gamma"},
       [](const Options& o) { return o.schedule.name == "step" || o.schedule.name == "exponential"; },
       "the schedules step and exponential"},
      {{"schedule.min_lr"},
       [](const Options& o) { return o.schedule.name == "cosine" || o.schedule.name == "linear"; },
       "the schedules cosine and linear"},
      {{"training.init_scale"}, [](const Options& o) { return o.training.precision == "fp16"; }, "--precision fp16"},
  };
  return kConditional;
}

void find_unused_settings(const Options& options, const std::vector<Setting>& given,
                          std::vector<std::string>& problems) {
  for (const Setting& one : given)
    for (const ConditionalSettings& conditional : conditional_settings())
      if (one.origin == settings::Origin::command_line && !conditional.applies(options) &&
          std::find(conditional.keys.begin(), conditional.keys.end(), one.option->key) != conditional.keys.end())
        problems.push_back(one.place + " is for " + conditional.used_by + " only: leave it out.");
}

// Names that other programs have for a number of epochs.
void find_epochs_of_warmup(const Options& options, const std::vector<Setting>& given,
                           std::vector<std::string>& problems) {
  for (const Setting& one : given)
    if (options.schedule.unit == "step" && one.origin == settings::Origin::command_line &&
        with_dashes(one.place).ends_with("warmup-epochs"))
      problems.push_back(one.place + " counts epochs, and the schedule counts steps: pass --warmup with their number.");
}

// By the end of its name: a format that other programs expect there, and that is not written.
std::string foreign_format(const std::string& path) {
  const std::pair<const char*, const char*> known[] = {{".onnx", "ONNX"},
                                                       {".h5", "HDF5"},
                                                       {".hdf5", "HDF5"},
                                                       {".keras", "Keras's format"},
                                                       {".npy", "NumPy's format"},
                                                       {".npz", "NumPy's format"},
                                                       {".gguf", "GGUF"},
                                                       {".tflite", "TensorFlow Lite's format"},
                                                       {".pb", "TensorFlow's format"},
                                                       {".mlmodel", "Core ML's format"},
                                                       {".mlpackage", "Core ML's format"},
                                                       {".engine", "TensorRT's format"},
                                                       {".plan", "TensorRT's format"},
                                                       {".pt2", "torch.export's format"}};
  const std::string name = upper_case(path);
  for (const auto& [ending, format] : known)
    if (name.ends_with(upper_case(ending))) return format;
  return {};
}

void find_problem_of_publish(const std::string& path, std::vector<std::string>& problems) {
  const std::string format = foreign_format(path);
  if (format.empty()) return;
  problems.push_back(
      "--publish is '" + path + "', and " + format +
      " is not written: it writes the weights alone, as safetensors where the name ends in .safetensors, "
      "and as a state_dict of PyTorch where it ends in .pt" +
      (format == "ONNX" ? ", from which torch.onnx.export() in Python makes ONNX." : "."));
}

void find_problems_of_graph(const Options& o, std::vector<std::string>& problems) {
  if (!o.training.cuda_graph) return;
  if (o.machine.device == "cpu")
    problems.push_back("--cuda-graph needs a GPU, and --device is cpu: leave out one of them.");
  if (o.training.accumulate > 1)
    problems.push_back(
        "--cuda-graph repeats a step of one pass, and --accumulate makes steps of several: leave out one of them.");
  if (o.training.skip_bad_losses > 0)
    problems.push_back(
        "--skip-bad-losses reads each loss in the middle of its step, and --cuda-graph repeats a step as a whole: "
        "leave out one of them.");
}

}  // namespace

CommandLine read_command_line(std::vector<std::string> arguments, const ReadFile& read,
                              const std::map<std::string, std::string>& environment, const std::string& commit) {
  CommandLine result;
  const settings::Table& table = setting_table();
  if ((result.early_exit = answer_to_wrong_verb(arguments))) return result;
  const std::vector<std::string> overrides = settings::take_overrides(table, arguments);
  settings::ParseResult typed = settings::parse_arguments(table, std::move(arguments));
  if ((result.early_exit = answer_to(typed.settings, commit))) return result;
  settings::expand_sets(table, typed);
  settings::add_overrides(table, overrides, typed);
  settings::resolve_other_names(table, typed.settings);
  std::vector<std::string> mistakes = std::move(typed.mistakes);
  find_duplicates(typed.settings, mistakes);
  append(mistakes, settings::expand_paths(typed.settings, settings::PathsOf::words, environment));
  result.given = typed.settings;
  if (const Setting* named = in_force(typed.settings, option(table, "config"))) {
    if ((result.early_exit = answer_to_yaml(typed.settings, read))) return result;
    read_file(*named, read, result.given, mistakes);
    append(mistakes, settings::expand_paths(result.given, settings::PathsOf::file, environment));
  }
  for (std::string& mistake : settings::apply(table, result.given, &result.options)) {
    if (mistake.starts_with("total_epochs ")) mistake += remedy_for_word(result.given, "training.epochs");
    if (mistake.starts_with("save_every ")) mistake += remedy_for_word(result.given, "snapshot.every_epochs");
    mistakes.push_back(std::move(mistake));
  }
  if (mistakes.empty()) mistakes = resolve_options(result.options, result.given);
  if (!mistakes.empty())
    result.early_exit = refusal(mistakes);
  else if (in_force(result.given, option(table, "print-config")))
    result.early_exit = EarlyExit{
        0, settings::print_settings(table, result.given, &result.options,
                                    [&](const settings::Option& unset) { return by_default(unset, result.options); })};
  return result;
}

std::vector<std::string> resolve_options(Options& o, const std::vector<Setting>& given) {
  std::vector<std::string> problems;
  choose_model_and_data(o);
  if (!is_given(given, "optimizer.name") && o.model.name == "gpt") o.optimizer.name = "adamw";
  if (!is_given(given, "optimizer.lr") && o.optimizer.name != "sgd")
    o.optimizer.lr = o.model.name == "gpt" ? 0.003 : 0.001;
  if (o.training.cuda_graph) o.optimizer.fused = true;  // its kernels read the learning rate from the GPU
  if (o.data.stride == 0) o.data.stride = std::max<std::int64_t>(o.data.context / 4, 1);
  if (o.evaluation.by.empty()) o.evaluation.by = o.data.name == "text" || o.data.name == "toy" ? "loss" : "accuracy";

  const ModelInput input = find_model(o.model.name)->input;
  const ModelInput data_input = o.data.name == "text"  ? ModelInput::tokens
                                : o.data.name == "toy" ? ModelInput::features
                                                       : ModelInput::images;
  const char* kinds[] = {"images, as of digits, mnist, cifar10, synthetic or shards", "text", "features, as of toy"};
  if (input != data_input)
    problems.push_back("the model " + o.model.name + " takes " + kinds[static_cast<int>(input)] + ", and the data " +
                       o.data.name + " are something else: pass another --model or another --dataset.");
  if (input != ModelInput::images && o.model.sync_batch_norm)
    problems.push_back("--sync-bn is for models of images, and " + o.model.name + " has no batch norm: leave it out.");
  if (input != ModelInput::images && o.training.channels_last)
    problems.push_back("--channels-last is for models of images, and " + o.model.name + " takes none: leave it out.");
  if (data_input != ModelInput::images && (o.data.augment || o.data.normalise))
    problems.push_back("--augment and --normalise are for images, and the data " + o.data.name +
                       " have none: leave them out.");
  if (o.model.name == "gpt" && o.model.embedding % o.model.heads != 0)
    problems.push_back("--embedding is " + std::to_string(o.model.embedding) + " and cannot be divided among " +
                       std::to_string(o.model.heads) + " --heads: make it a multiple of them.");
  const std::string& url = o.group.init_method;
  if (url != "env://" && !url.starts_with("tcp://") && !url.starts_with("file:///"))
    problems.push_back("--init-method is '" + visible(url) + "' but takes tcp://HOST:PORT or file:///PATH.");
  find_unused_settings(o, given, problems);
  find_epochs_of_warmup(o, given, problems);
  if (o.snapshot.path.empty() && is_given(given, "snapshot.path"))
    problems.push_back("--snapshot needs the name of a file.");
  find_problem_of_publish(o.snapshot.publish, problems);
  if (!o.model.init.empty() && !o.model.transfer.empty())
    problems.push_back("--init and --transfer both say which weights to begin with: leave out one of them.");
  if (!o.model.skip.empty() && o.model.init.empty() && o.model.transfer.empty())
    problems.push_back("--skip belongs to --init or --transfer: name a file of weights, or leave it out.");
  if (o.training.deterministic && o.training.cudnn_benchmark)
    problems.push_back(
        "--cudnn-benchmark chooses by measured time, which differs from run to run, and --deterministic "
        "excludes that: leave out one of them.");
  find_problems_of_graph(o, problems);
  if (o.optimizer.nesterov && (o.optimizer.name != "sgd" || o.optimizer.momentum == 0))
    problems.push_back("--nesterov applies to sgd with momentum: pass --optimizer sgd and a --momentum above 0.");
  if (o.data.name == "toy" && (o.snapshot.best == "accuracy" || o.evaluation.by == "accuracy"))
    problems.push_back("the data toy have no accuracy: judge by loss.");
  if (o.data.name == "text" && !o.evaluation.predictions.empty())
    problems.push_back("--predictions has a line for each image or number, and a text has none: leave it out.");
  if ((o.group.rank >= 0) != (o.group.world_size >= 0))
    problems.push_back("--rank and --world-size belong together: give both, or neither.");
  else if (o.group.rank >= 0 && o.group.rank >= o.group.world_size)
    problems.push_back("--rank is " + std::to_string(o.group.rank) + " but --world-size is " +
                       std::to_string(o.group.world_size) + ": ranks count from 0.");
  return problems;
}

}  // namespace ddprun::train

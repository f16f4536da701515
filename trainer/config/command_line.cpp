#include "trainer/config/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <list>
#include <sstream>

#include "rendezvous/base/spelling.h"
#include "trainer/config/config_file.h"
#include "trainer/models/model_names.h"
#include "trainer/models/model_spec.h"

namespace ddprun {
namespace {

constexpr const char* kDescription =
    "Trains a model over DistributedDataParallel, in this process or in as many as a launcher starts:\n\n"
    "  train                                one process\n"
    "  ddprun --nproc_per_node=4 train      four, brought back from the last snapshot when one of them dies\n"
    "  train 50 10                          50 epochs, a snapshot after every 10th (and after the last)\n"
    "  train tour                           lists short demonstrations of what the ranks do\n\n"
    "Runs that begin alike end alike, bit for bit: same settings, same number of ranks, same threads, killed in "
    "between "
    "or not.\n";

constexpr const char* kFooter =
    "\nEvery value has a name in a file, too: --print-config shows them all, and where each came from; what it prints "
    "is a file for\n"
    "--config. ??? in a file stands for a value that must be given. The command line wins over the file.\n"
    "Only rank 0 prints. The snapshot is an ordinary PyTorch file: torch.load(\"snapshot.pt\", "
    "weights_only=True)[\"MODEL_STATE\"].\n"
    "Ends with 0 when all epochs are done (or a launcher wanted it saved), 75 when SIGTERM came and all is saved, 2 "
    "for a "
    "command\n"
    "line that cannot work, 1 for everything else.";

const char* title_of(const std::string& section) {
  static const std::map<std::string, const char*> kTitles{
      {"training", "Training"},          {"data", "Data"},         {"model", "Model"},
      {"optimizer", "Optimizer"},        {"schedule", "Schedule"}, {"snapshot", "Snapshots"},
      {"evaluation", "Evaluation"},      {"logging", "Logging"},   {"machine", "Machine"},
      {"group", "Ranks started by hand"}};
  return kTitles.at(section);
}

std::string help_of(const SettingRow& row) {
  const std::string standard = text_of(row, Options{});
  const bool shown = *row.value && !standard.empty() && standard != "-1";
  return std::string(row.help) + (shown ? " [" + standard + "]" : "");
}

// What the words say, before any value is read.
struct Words {
  std::list<std::pair<const SettingRow*, std::vector<std::string>>> texts;
  std::vector<std::string> sets;
  std::string config;
  bool print_config = false;
};

void add_row(CLI::App& app, const SettingRow& row, Words& words) {
  const std::string name = row.flag, section = std::string(row.key).substr(0, std::string(row.key).find('.'));
  if (name.empty()) return;
  auto& [at, texts] = words.texts.emplace_back(&row, std::vector<std::string>{});
  auto* option =
      *row.value ? app.add_option(name, texts, help_of(row))->expected(1) : app.add_flag(name, texts, help_of(row));
  option->type_name(row.value)->allow_extra_args(false);
  if (!name.starts_with("--")) return;
  option->group(title_of(section));
  option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);  // one that is given twice is told of by its name
}

// A demonstration's name stands where a number of epochs does.
std::string did_you_mean_tour(const Setting& setting) {
  return setting.origin == "total_epochs" && distance(setting.text, "tour") <= 2 ? " Did you mean 'tour'?" : "";
}

// Of what nothing was expected of.
std::string unknown_word(const std::string& word) {
  if (!word.starts_with("-")) return "there is nothing that the word '" + visible(word) + "' could mean.";
  const std::string name = word.substr(0, word.find('=')), none = "there is no option " + visible(name) + ".";
  const std::string as_key = "." + with_underscores(name.substr(std::min<std::size_t>(2, name.size())));
  std::vector<std::string> flags;
  for (const SettingRow& row : setting_rows()) {
    if (std::string(row.flag).starts_with("--")) flags.emplace_back(row.flag);
    if (std::string(row.key).ends_with(as_key)) return none + " Did you mean --set " + row.key + "=" + row.value + "?";
  }
  return none + did_you_mean(name, flags);
}

std::optional<Leave> parse(CLI::App& app, std::vector<std::string> arguments) {
  std::reverse(arguments.begin(), arguments.end());  // CLI11 takes a vector from its end
  try {
    app.parse(arguments);
    return {};
  } catch (const CLI::ParseError& error) {
    std::ostringstream out, err;
    if (app.exit(error, out, err) == 0) return Leave{0, out.str()};
    const auto rest = app.remaining();
    const std::string why = !rest.empty() ? unknown_word(rest.front()) : std::string(error.what()) + ".";
    return Leave{2, "train: " + why + (why.ends_with("?") ? "" : " `train --help` lists what there is.") + "\n"};
  }
}

void read_sets(const Words& words, std::vector<Setting>& given, std::vector<std::string>& mistakes) {
  for (const std::string& word : words.sets) {
    const std::size_t equals = word.find('=');
    const std::string key = word.substr(0, equals);
    const SettingRow* row = find_setting(key);
    if (equals == std::string::npos)
      mistakes.push_back("--set " + word + " has no value: write --set " + word + "=VALUE.");
    else if (!row)
      mistakes.push_back("--set " + key + ": there is no setting " + key + "." + unknown_setting(key));
    else
      given.push_back({row, word.substr(equals + 1), "--set " + key});
  }
}

// Of the command line; its options have no order among each other, so a value can be given once.
void read_words(const Words& words, std::vector<Setting>& given, std::vector<std::string>& mistakes) {
  const std::size_t from = given.size();
  for (const auto& [row, texts] : words.texts)
    for (const std::string& text : texts) given.push_back({row, text, row->flag});
  read_sets(words, given, mistakes);
  for (std::size_t i = from; i < given.size(); ++i)
    for (std::size_t j = from; j < i; ++j)
      if (given[j].row == given[i].row)
        mistakes.push_back(
            given[i].origin +
            (given[i].origin == given[j].origin ? " is given twice" : " and " + given[j].origin + " are one value") +
            ": leave out one of them.");
}

// A later value replaces an earlier one, also where that cannot be: a file may hold ???.
std::vector<Setting> in_force(const std::vector<Setting>& given) {
  std::vector<Setting> last;
  for (auto one = given.rbegin(); one != given.rend(); ++one)
    if (std::none_of(last.begin(), last.end(), [&](const Setting& later) { return later.row == one->row; }))
      last.insert(last.begin(), *one);
  return last;
}

Leave refusal(const std::vector<std::string>& sentences) {
  std::string text;
  for (const std::string& sentence : sentences) text += "train: " + sentence + "\n";
  return {2, text};
}

bool is_given(const std::vector<Setting>& given, const std::string& key) {
  return std::any_of(given.begin(), given.end(), [&](const Setting& one) { return one.row->key == key; });
}

void choose_model_and_data(Options& o) {
  const ModelName* model = find_model(o.model.name);
  if (o.data.name.empty()) {
    const ModelInput input = model ? model->input : ModelInput::images;
    o.data.name = input == ModelInput::tokens ? "text" : input == ModelInput::features ? "toy" : "digits";
  }
  if (o.model.name.empty()) o.model.name = o.data.name == "text" ? "gpt" : o.data.name == "toy" ? "linear" : "convnet";
}

// Settings that only some runs look at. A file may hold them for others, as --print-config's do; on the command line
// they are mistakes.
struct Effect {
  std::vector<std::string> keys;
  bool (*in)(const Options&);
  const char* of;
};

const std::vector<Effect>& effects() {
  static const std::vector<Effect> kEffects{
      {{"model.layers", "model.heads", "model.embedding", "model.dropout"},
       [](const Options& o) { return o.model.name == "gpt"; },
       "the model gpt"},
      {{"model.head", "model.width_divisor"},
       [](const Options& o) { return o.model.name == "vgg11_bn" || o.model.name == "resnet18"; },
       "the models vgg11_bn and resnet18"},
      {{"data.context", "data.stride"}, [](const Options& o) { return o.data.name == "text"; }, "the data text"},
      {{"data.samples", "data.channels", "data.height", "data.width", "data.classes"},
       [](const Options& o) { return o.data.name == "synthetic"; },
       "the data synthetic"},
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
  return kEffects;
}

void find_without_effect(const Options& options, const std::vector<Setting>& given,
                         std::vector<std::string>& problems) {
  for (const Setting& one : given)
    for (const Effect& effect : effects())
      if (one.origin.starts_with("--") && !effect.in(options) &&
          std::find(effect.keys.begin(), effect.keys.end(), one.row->key) != effect.keys.end())
        problems.push_back(one.origin + " is for " + effect.of + " only: leave it out.");
}

}  // namespace

CommandLine read_command_line(std::vector<std::string> arguments, const ReadFile& read_file) {
  CommandLine result;
  CLI::App app(kDescription, "train");
  app.footer(kFooter);
  Words words;
  for (const SettingRow& row : setting_rows()) add_row(app, row, words);
  app.add_option("--config", words.config, "TOML file with any of these values")->type_name("FILE");
  app.add_option("--set", words.sets, "One value by its name in a file: --set optimizer.lr=0.1")
      ->type_name("KEY=VALUE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_flag("--print-config", words.print_config, "Print every value in force, and where it came from, and leave");
  if ((result.leave = parse(app, std::move(arguments)))) return result;

  std::vector<std::string> mistakes;
  if (app.count("--config") > 0) try {
      ConfigFile file = read_config_file(words.config, read_file(words.config));
      result.given = std::move(file.settings);
      mistakes = std::move(file.mistakes);
    } catch (const std::exception& error) {
      mistakes.push_back("cannot read the configuration " + words.config + ": " + error.what() +
                         ". Name a TOML file, such as `train --print-config` prints.");
    }
  read_words(words, result.given, mistakes);
  result.given = in_force(result.given);
  for (const Setting& setting : result.given)
    if (const auto why = apply(setting, result.options)) mistakes.push_back(*why + did_you_mean_tour(setting));
  if (mistakes.empty()) mistakes = settle(result.options, result.given);
  if (!mistakes.empty())
    result.leave = refusal(mistakes);
  else if (words.print_config)
    result.leave = Leave{0, print_config(result.options, result.given)};
  return result;
}

std::vector<std::string> settle(Options& o, const std::vector<Setting>& given) {
  std::vector<std::string> problems;
  choose_model_and_data(o);
  if (!is_given(given, "optimizer.name") && o.model.name == "gpt") o.optimizer.name = "adamw";
  if (!is_given(given, "optimizer.lr") && o.optimizer.name != "sgd")
    o.optimizer.lr = o.model.name == "gpt" ? 0.003 : 0.001;
  if (o.data.stride == 0) o.data.stride = std::max<std::int64_t>(o.data.context / 4, 1);
  if (o.evaluation.by.empty()) o.evaluation.by = o.data.name == "text" || o.data.name == "toy" ? "loss" : "accuracy";

  const ModelInput input = find_model(o.model.name)->input;
  const ModelInput has = o.data.name == "text"  ? ModelInput::tokens
                         : o.data.name == "toy" ? ModelInput::features
                                                : ModelInput::images;
  const char* kinds[] = {"images, as of digits, mnist, cifar10 or synthetic", "text", "features, as of toy"};
  if (input != has)
    problems.push_back("the model " + o.model.name + " takes " + kinds[static_cast<int>(input)] + ", and the data " +
                       o.data.name + " are something else: pass another --model or another --dataset.");
  if (input != ModelInput::images && o.model.sync_batch_norm)
    problems.push_back("--sync-bn is for models of images, and " + o.model.name + " has no batch norm: leave it out.");
  if (has != ModelInput::images && (o.data.augment || o.data.normalise))
    problems.push_back("--augment and --normalise are for images, and the data " + o.data.name +
                       " have none: leave them out.");
  if (o.model.name == "gpt" && o.model.embedding % o.model.heads != 0)
    problems.push_back("--embedding is " + std::to_string(o.model.embedding) + " and cannot be divided among " +
                       std::to_string(o.model.heads) + " --heads: make it a multiple of them.");
  const std::string& url = o.group.init_method;
  if (url != "env://" && !url.starts_with("tcp://") && !url.starts_with("file:///"))
    problems.push_back("--init-method is '" + visible(url) + "' but takes tcp://HOST:PORT or file:///PATH.");
  find_without_effect(o, given, problems);
  if (o.snapshot.path.empty()) problems.push_back("--snapshot needs the name of a file.");
  if (!o.model.init.empty() && !o.model.transfer.empty())
    problems.push_back("--init and --transfer both say which weights to begin with: leave out one of them.");
  if (!o.model.skip.empty() && o.model.init.empty() && o.model.transfer.empty())
    problems.push_back("--skip belongs to --init or --transfer: name a file of weights, or leave it out.");
  if (o.optimizer.nesterov && (o.optimizer.name != "sgd" || o.optimizer.momentum == 0))
    problems.push_back("--nesterov is a way of sgd's momentum: pass --optimizer sgd and a --momentum above 0.");
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

}  // namespace ddprun

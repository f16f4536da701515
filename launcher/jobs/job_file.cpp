#include "launcher/jobs/job_file.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "launcher/config/config.h"
#include "launcher/config/metrics_file.h"
#include "launcher/config/options.h"
#include "launcher/config/options_file.h"
#include "launcher/config/values.h"
#include "launcher/jobs/hyperparameters.h"
#include "launcher/jobs/sagemaker_names.h"
#include "launcher/print/print_config.h"
#include "launcher/settings/paths.h"
#include "launcher/settings/values.h"
#include "rendezvous/base/spelling.h"

namespace ddprun::launcher {
namespace fs = std::filesystem;
namespace {

using settings::FileNotes, settings::Setting;

const std::vector<std::string> kJobKeys = {"name",
                                           "source_dir",
                                           "entry_point",
                                           "command",
                                           "arguments",
                                           "nodes",
                                           "rendezvous",
                                           "max_wait",
                                           "snapshot",
                                           "output_path",
                                           "tags",
                                           "slurm",
                                           "kubernetes",
                                           "program",
                                           "hyperparameters",
                                           "env",
                                           "environment",
                                           "rules",
                                           "metrics",
                                           "metric_definitions",
                                           "hyperparameter_style",
                                           "instance_count"};

template <class Names>
bool is_one_of(const std::string& name, const Names& names) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

// The value of a table in its order in the file; SchedulerWords keep it.
bool before_in_file(const toml::node& a, const toml::node& b) {
  const auto &left = a.source().begin, &right = b.source().begin;
  return std::pair(left.line, left.column) < std::pair(right.line, right.column);
}

// One file, or one --set. What it reads replaces what was read before.
class DescriptionReader {
 public:
  DescriptionReader(DescribedJob& out, const std::string& folder) : out_(out), folder_(folder) {}

  void read(const std::string& name, const std::string& text) {
    OptionsFile file = read_options_file(
        name, text,
        [&](const std::string& key, const toml::node& node, FileNotes& notes) { return read_key(key, node, notes); });
    append(out_.mistakes, file.mistakes);
    append(settings_, file.settings);
    append(settings_, extra_settings_);
    extra_settings_.clear();
    if (!file.program.empty()) program_ = std::move(file.program);
    for (auto& [variable, value] : file.env) env_[variable] = value;
    append(rules_.failures, file.rules.failures);
    append(rules_.output, file.rules.output);
    if (!file.metrics.empty()) metrics_ = std::move(file.metrics);
  }

  void finish(const JobSource& source) {
    if (!without_meaning_.empty())
      out_.warnings.push_back(source.name + ": " + listed(without_meaning_, "and") +
                              (without_meaning_.size() == 1 ? " has" : " have") +
                              " no effect: ddprun rents no machines and starts no containers.");
    JobDescription& job = out_.job;
    if (job.name.empty()) job.name = name_from(source.name);
    if (job.source_dir.empty()) job.source_dir = folder_;
    fill_program(source);
    add_max_wait();
    apply_options();
    job.config = config_text();
  }

 private:
  template <class Value>
  static void append(std::vector<Value>& to, const std::vector<Value>& more) {
    to.insert(to.end(), more.begin(), more.end());
  }

  // False: job_file.h reads it, as an option or one of its own keys.
  bool read_key(const std::string& key, const toml::node& node, FileNotes& notes) {
    const std::string name = with_underscores(key);
    if (const toml::table* table = node.as_table(); table && is_sagemaker_table(name)) {
      for (const auto& [inner, value] : *table) read_named(name + "." + with_underscores(inner.str()), value, notes);
      return true;
    }
    return read_named(name, node, notes);
  }

  bool read_named(const std::string& written, const toml::node& node, FileNotes& notes) {
    const std::string name = own_name(written);
    const std::string last = name.substr(name.rfind('.') + 1);
    if (has_no_meaning(last)) return without_meaning_.push_back(last), true;
    if (name.starts_with("snapshot.")) return read_snapshot_key(name.substr(9), node, notes), true;
    if (name == "name") return read_name(node, notes), true;
    if (name == "source_dir") return read_folder(name, node, out_.job.source_dir, notes), true;
    if (name == "output_path") return read_folder(name, node, out_.job.output_path, notes), true;
    if (name == "entry_point") return read_entry_point(node, notes), true;
    if (name == "command") return read_command(node, notes), true;
    if (name == "arguments") return read_arguments(node, notes), true;
    if (name == "hyperparameters") return read_parameters(node, notes), true;
    if (name == "hyperparameter_style") return read_parameter_style(node, notes), true;
    if (name == "nodes") return read_option("nnodes", node, notes), true;
    if (name == "rendezvous") return read_rendezvous(node, notes), true;
    if (name == "max_wait") return read_max_wait(node, notes), true;
    if (name == "snapshot") return read_snapshot(node, notes), true;
    if (name == "tags") return read_tags(node, notes), true;
    if (name == "slurm") return read_words(name, node, out_.job.slurm, notes), true;
    if (name == "kubernetes") return read_words(name, node, out_.job.kubernetes, notes), true;
    if (written == name) return refuse_unknown(name, node, notes);
    if (name == "env") return read_env(node, env_, notes), true;
    if (name == "nproc_per_node" || name == "max_run") return read_option(with_dashes(name), node, notes), true;
    return false;
  }

  // A key of a foreign table that nobody knows, or one that is close to one of a job.
  bool refuse_unknown(const std::string& name, const toml::node& node, FileNotes& notes) {
    const bool known = settings::find_key(options(), name) != nullptr || is_one_of(name, kJobKeys);
    if (known) return false;
    std::vector<std::string> names = kJobKeys;
    for (const settings::Option& option : options().options)
      if (settings::in_file(option)) names.push_back(with_underscores(option.file_key()));
    for (const std::string& foreign : sagemaker_names()) names.push_back(foreign);
    const std::string near = did_you_mean(name, names);
    notes.add(node, "there is no key " + visible(name) + "." +
                        (near.empty() ? " docs/jobs.md lists them, and ddprun --print-config the options." : near));
    return true;
  }

  // Empty: a mistake, which is told.
  std::optional<std::string> text_of(const std::string& name, const toml::node& node, FileNotes& notes) {
    if (const auto* text = node.as_string(); text && !text->get().empty()) return text->get();
    notes.add(node, name + " is " + describe_value(node) + "; it takes a string.");
    return {};
  }

  void read_name(const toml::node& node, FileNotes& notes) {
    const auto text = text_of("name", node, notes);
    if (!text) return;
    constexpr std::size_t kNameMax = 60;
    const bool plain = std::all_of(text->begin(), text->end(),
                                   [](unsigned char c) { return std::isalnum(c) || c == '-' || c == '_' || c == '.'; });
    if (!plain || text->size() > kNameMax || !std::isalnum(static_cast<unsigned char>(text->front())))
      return notes.add(node, "name is " + describe_value(node) +
                                 "; it takes at most 60 letters, digits, '-', '_' and '.', and begins with one of the "
                                 "first two.");
    out_.job.name = *text;
  }

  // Where the job runs is another machine, perhaps; what options name is replaced there.
  static bool is_as_written(const std::string& name, const toml::node& node, const std::string& path,
                            FileNotes& notes) {
    if (!settings::needs_shell(path)) return true;
    notes.add(node, name + " is " + describe_value(node) +
                        ", and neither ~ nor a variable is replaced in it: write the path as it is.");
    return false;
  }

  void read_folder(const std::string& name, const toml::node& node, std::string& folder, FileNotes& notes) {
    const auto text = text_of(name, node, notes);
    if (!text) return;
    if (text->find("://") != std::string::npos)
      return notes.add(node, name + " is " + describe_value(node) + "; it takes a folder of this machine" +
                                 (name == "output_path" ? ". Copy it away after the job, or keep the snapshot by "
                                                          "snapshot.store."
                                                        : "."));
    if (is_as_written(name, node, *text, notes)) folder = (fs::path(folder_) / *text).lexically_normal().string();
  }

  void read_entry_point(const toml::node& node, FileNotes& notes) {
    if (auto text = text_of("entry_point", node, notes)) program_ = {*text};
  }

  void read_command(const toml::node& node, FileNotes& notes) {
    if (node.is_array())
      return notes.add(node,
                       "command is an array; a program with its arguments is program = [\"train\", \"--lr\", \"1\"].");
    if (auto text = text_of("command", node, notes)) program_ = {"/bin/sh", "-c", *text};
  }

  void read_arguments(const toml::node& node, FileNotes& notes) {
    std::vector<std::string> words;
    const toml::array* all = node.as_array();
    if (!all)
      return notes.add(node, "arguments is " + describe_value(node) + "; it takes a list: [\"--lr\", \"0.1\"].");
    for (const toml::node& one : *all) {
      const auto text = settings::scalar(one, false);
      if (!text) return notes.add(one, "arguments holds " + describe_value(one) + "; it takes strings and numbers.");
      words.push_back(*text);
    }
    arguments_ = std::move(words);
  }

  void read_parameter_style(const toml::node& node, FileNotes& notes) {
    const std::string text = node.value_or(std::string());
    if (!read_style(text, style_))
      notes.add(node, "hyperparameter_style is " + describe_value(node) + "; it takes argparse, sagemaker or hydra." +
                          did_you_mean(text, {"argparse", "sagemaker", "hydra"}));
  }

  // The style has been read: toml++ goes through a table in alphabetical order.
  void read_parameters(const toml::node& node, FileNotes& notes) {
    const toml::table* table = node.as_table();
    if (!table)
      return notes.add(node, "hyperparameters is " + describe_value(node) +
                                 "; it is a table: [hyperparameters], and lr = 0.1 below.");
    merge(hyperparameters_, read_hyperparameters(*table, style_, notes));
  }

  // As if the file had the option's own key.
  void read_option(const std::string& name, const toml::node& node, FileNotes& notes) {
    const auto text = settings::scalar(node, false);
    if (!text) return notes.add(node, name + " is " + describe_value(node) + "; it takes a string or a number.");
    extra_settings_.push_back({&option(name.c_str()), *text, settings::Origin::file, notes.place(node)});
  }

  // As if the file had the options for it.
  void read_rendezvous(const toml::node& node, FileNotes& notes) {
    const std::string text = node.value_or(std::string());
    if (text.find('@') != text.npos) return notes.add(node, std::string("rendezvous ") + kHoldsUser + ".");
    for (const auto& [scheme, before] : {std::pair("etcd://", ""), {"etcd+https://", "https://"}}) {
      const std::string members = text.starts_with(scheme) ? text.substr(std::string_view(scheme).size()) : "";
      if (members.empty()) continue;
      for (const auto& [name, value] :
           {std::pair("rdzv-backend", std::string("etcd")), {"rdzv-endpoint", before + members}})
        extra_settings_.push_back({&option(name), value, settings::Origin::file, notes.place(node)});
      return;
    }
    notes.add(node, "rendezvous is " + describe_value(node) +
                        "; it takes \"etcd://HOST:PORT,HOST:PORT\", or etcd+https:// before them.");
  }

  std::optional<Duration> time_of(const std::string& name, const toml::node& node, FileNotes& notes) {
    const auto read = settings::read_duration(settings::scalar(node, false).value_or(""));
    if (const auto* time = std::get_if<Duration>(&read); time && *time > Duration::zero()) return *time;
    notes.add(node, name + " is " + describe_value(node) + "; it takes a time above 0, such as \"90s\" or \"2h\".");
    return {};
  }

  void read_max_wait(const toml::node& node, FileNotes& notes) {
    if (const auto time = time_of("max_wait", node, notes)) out_.job.max_wait = time;
  }

  void read_snapshot(const toml::node& node, FileNotes& notes) {
    if (node.is_string()) return read_snapshot_key("path", node, notes);
    const toml::table* table = node.as_table();
    if (!table)
      return notes.add(node, "snapshot is " + describe_value(node) +
                                 "; it is a path, or a table: [snapshot], and path, fetch and store below.");
    for (const auto& [key, value] : *table) read_snapshot_key(with_underscores(key.str()), value, notes);
  }

  void read_snapshot_key(const std::string& key, const toml::node& node, FileNotes& notes) {
    SnapshotCopy& copy = out_.job.snapshot;
    if (key == "every" || key == "limit") {
      if (const auto time = time_of("snapshot." + key, node, notes)) (key == "every" ? copy.every : copy.limit) = *time;
      return;
    }
    static const std::vector<std::string> kKeys{"path", "fetch", "store", "every", "limit", "s3_uri"};
    if (!is_one_of(key, kKeys))
      return notes.add(node, "snapshot has no key " + visible(key) + "; its keys are " + listed(kKeys, "and") + "." +
                                 did_you_mean(key, kKeys));
    if (!node.is_string())
      return notes.add(node, "snapshot." + key + " is " + describe_value(node) + "; it takes a string.");
    const std::string text = node.as_string()->get();
    if (key == "path" && is_as_written("snapshot.path", node, text, notes)) copy.path = text;
    if (key == "fetch") copy.fetch = text;
    if (key == "store") copy.store = text;
    if (key != "s3_uri") return;
    copy.fetch = "aws s3 sync " + text + " {path}";  // copies nothing, and succeeds, where there is nothing yet
    copy.store = "aws s3 sync {path} " + text;
  }

  void read_tags(const toml::node& node, FileNotes& notes) {
    std::vector<std::string> tags;
    if (const toml::table* table = node.as_table())
      for (const auto& [key, value] : *table)
        tags.push_back(std::string(key.str()) + "=" + settings::scalar(value, true).value_or(""));
    const toml::array* all = node.as_array();
    if (!all && !node.is_table())
      return notes.add(node, "tags is " + describe_value(node) + "; it takes a list: [\"team=vision\"].");
    if (all)
      for (const toml::node& one : *all) {
        const toml::table* pair = one.as_table();  // SageMaker's {Key = "team", Value = "vision"}
        if (!pair && !one.is_string())
          return notes.add(one, "tags holds " + describe_value(one) + "; it takes strings: \"team=vision\".");
        tags.push_back(pair ? (*pair)["Key"].value_or(std::string()) + "=" + (*pair)["Value"].value_or(std::string())
                            : one.as_string()->get());
      }
    out_.job.tags = std::move(tags);
  }

  void read_words(const std::string& name, const toml::node& node, SchedulerWords& words, FileNotes& notes) {
    const toml::table* table = node.as_table();
    if (!table) return notes.add(node, name + " is " + describe_value(node) + "; it is a table: [" + name + "].");
    std::vector<std::pair<std::string, const toml::node*>> entries;
    for (const auto& [key, value] : *table) entries.emplace_back(with_dashes(key.str()), &value);
    std::sort(entries.begin(), entries.end(),
              [](const auto& a, const auto& b) { return before_in_file(*a.second, *b.second); });
    for (const auto& [key, value] : entries) read_word(name, key, *value, words, notes);
  }

  void read_word(const std::string& table, const std::string& key, const toml::node& value, SchedulerWords& words,
                 FileNotes& notes) {
    const auto text = settings::scalar(value, true);
    if (!text)
      return notes.add(value,
                       table + "." + key + " is " + describe_value(value) + "; it takes a string, a number or true.");
    std::erase_if(words, [&](const auto& one) { return one.first == key; });
    if (const auto* yes = value.as_boolean(); yes && !yes->get()) return;
    words.emplace_back(key, value.is_boolean() ? "" : *text);
  }

  static std::string name_from(const std::string& file) {
    std::string name = fs::path(file).stem().string();
    std::replace_if(
        name.begin(), name.end(), [](unsigned char c) { return !std::isalnum(c) && c != '-' && c != '_'; }, '-');
    name.erase(0, std::min(name.find_first_not_of("-_"), name.size()));
    return name.empty() ? "job" : name.substr(0, 60);
  }

  void fill_program(const JobSource& source) {
    if (program_.empty())
      out_.mistakes.push_back(source.name +
                              ": no program is named: program = [\"train.py\", \"--lr\", \"0.1\"], or entry_point = "
                              "\"train.py\".");
    append(program_, arguments_);
    append(program_, words_of(hyperparameters_));
    append(program_, source.arguments);
    out_.job.program = program_;
  }

  // For the other nodes of a job; one node waits for nobody.
  void add_max_wait() {
    if (!out_.job.max_wait) return;
    const auto seconds = std::chrono::ceil<std::chrono::seconds>(*out_.job.max_wait).count();
    const Setting* set = settings::in_force(settings_, option("rdzv-conf"));
    const std::string before = set && !set->text.empty() ? set->text + "," : "";
    if (before.find("join_timeout=") != std::string::npos) return;
    settings_.push_back(
        {&option("rdzv-conf"), before + "join_timeout=" + std::to_string(seconds), settings::Origin::file, "max_wait"});
  }

  void apply_options() {
    Config config;
    append(out_.mistakes, settings::apply(options(), settings_, &config));
    out_.job.nodes = config.nnodes.most + config.rounds.spares;
    out_.job.max_run = config.max_run;
    for (const Setting& set : settings_)
      out_.job.options.push_back(std::string("--") + set.option->name + "=" + set.text);
    if (config.events != EventSink::nowhere)
      out_.mistakes.push_back(settings::subject(*settings::in_force(settings_, option("event-log-handler"))) +
                              " is for ddprun itself: ddprun run writes the events to the job's record. Leave it out.");
  }

  std::string config_text() const {
    std::string out = settings::print_given(options(), settings_);
    out += "program = " + settings::toml_array(program_) + "\n";
    if (!env_.empty()) out += "\n[env]\n";
    for (const auto& [name, value] : env_) out += settings::toml_key(name) + " = " + toml_string(value) + "\n";
    return out + print_rules(rules_) + print_metrics(metrics_);
  }

  DescribedJob& out_;
  const std::string& folder_;
  std::vector<Setting> settings_, extra_settings_;
  std::vector<std::string> program_, arguments_;
  Hyperparameters hyperparameters_;
  HyperparameterStyle style_ = HyperparameterStyle::argparse;
  std::map<std::string, std::string> env_;
  Rules rules_;
  std::vector<agent::MetricDefinition> metrics_;
  std::vector<std::string> without_meaning_;
};

// KEY=VALUE as a line of TOML: the value as it is if it is one, else as a string.
std::string toml_line(const std::string& key, const std::string& value) {
  const std::string as_it_is = key + " = " + value + "\n";
  try {
    parse_toml(as_it_is, "--set");
    return as_it_is;
  } catch (const toml::parse_error&) {
    return key + " = " + toml_string(value) + "\n";
  }
}

}  // namespace

DescribedJob read_job_description(const JobSource& source) {
  DescribedJob out;
  DescriptionReader reader(out, source.folder);
  reader.read(source.name, source.text);
  std::vector<std::string> names;
  for (const std::string& override : source.overrides) {
    const std::size_t equals = override.find('=');
    if (equals == std::string::npos || equals == 0) {
      out.mistakes.push_back("--set is '" + visible(override) + "'; it takes KEY=VALUE, such as --set max-restarts=5.");
      continue;
    }
    names.push_back("--set " + override.substr(0, equals));
    reader.read(names.back(), toml_line(override.substr(0, equals), override.substr(equals + 1)));
  }
  reader.finish(source);
  for (const std::string& name : names)  // they have one line
    for (std::string& mistake : out.mistakes)
      if (mistake.starts_with(name + ":1: ")) mistake.erase(name.size(), 2);
  return out;
}

}  // namespace ddprun::launcher

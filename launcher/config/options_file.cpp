#include "launcher/config/options_file.h"

#include "launcher/config/metrics_file.h"
#include "launcher/config/options.h"
#include "launcher/settings/config_file.h"
#include "rendezvous/base/spelling.h"

namespace ddprun::launcher {
namespace {

using settings::FileNotes;

// Set by ddprun for each worker, so a file must not set them.
constexpr const char* kOwnVariables[] = {"RANK",
                                         "LOCAL_RANK",
                                         "GROUP_RANK",
                                         "ROLE_RANK",
                                         "WORLD_SIZE",
                                         "LOCAL_WORLD_SIZE",
                                         "ROLE_NAME",
                                         "GROUP_WORLD_SIZE",
                                         "MASTER_ADDR",
                                         "MASTER_PORT",
                                         "ROLE_WORLD_SIZE",
                                         "TORCHELASTIC_RESTART_COUNT",
                                         "TORCHELASTIC_MAX_RESTARTS",
                                         "TORCHELASTIC_RUN_ID",
                                         "TORCHELASTIC_USE_AGENT_STORE",
                                         "TORCHELASTIC_ERROR_FILE"};

// launcher/jobs/job_file.h reads them.
bool is_for_run(const std::string& key) {
  for (const char* own : {"name", "source-dir", "entry-point", "hyperparameters", "hyperparameter-style", "nodes",
                          "max-wait", "snapshot", "output-path", "tags", "slurm", "kubernetes", "instance-count"})
    if (with_dashes(key) == own) return true;
  return false;
}

std::string bad_program(const toml::node& node) {
  return "program holds " + describe_value(node) + R"(; it takes strings: program = ["train", "--lr", "1"].)";
}

void read_program(const toml::node& node, OptionsFile& file, FileNotes& notes) {
  const toml::array* words = node.as_array();
  if (node.is_string()) file.program = {node.as_string()->get()};
  if (words)
    for (const toml::node& word : *words) {
      if (!word.is_string()) return notes.add(word, bad_program(word));
      file.program.push_back(word.as_string()->get());
    }
  if (!words && !node.is_string()) return notes.add(node, bad_program(node));
  file.program_place = notes.place(node);
}

void read_variable(const std::string& name, const toml::node& value, std::map<std::string, std::string>& env,
                   FileNotes& notes) {
  const auto text = settings::scalar(value, false);
  if (name.empty() || name.find('=') != std::string::npos)
    return notes.add(value, "'" + name + "' cannot be the name of a variable.");
  if (!text) return notes.add(value, name + " is " + describe_value(value) + "; a variable is a string or a number.");
  for (const char* own : kOwnVariables)
    if (name == own || name.starts_with("DDPRUN_"))
      return notes.add(value, name + " is set by ddprun for each worker: leave it out.");
  env.emplace(name, *text);
}

}  // namespace

void read_env(const toml::node& node, std::map<std::string, std::string>& env, FileNotes& notes) {
  const toml::table* table = node.as_table();
  if (!table)
    return notes.add(node, "env is " + describe_value(node) + "; it is a table: [env], and NAME = \"value\" below.");
  for (const auto& [key, value] : *table) read_variable(std::string(key.str()), value, env, notes);
}

OptionsFile read_options_file(const std::string& name, const std::string& text,
                              const settings::ReadExtraKey& read_further_key) {
  OptionsFile file;
  auto options_read = settings::read_config_file(
      options(), name, text, [&](const std::string& key, const toml::node& node, FileNotes& notes) {
        if (read_further_key && read_further_key(key, node, notes)) return true;
        if (key == "program") return read_program(node, file, notes), true;
        if (key == "env") return read_env(node, file.env, notes), true;
        if (key == "rules") return file.rules = read_rules(node, notes), true;
        if (is_metrics_key(key)) return file.metrics = read_metrics(node, notes), true;
        if (is_for_run(key))
          return notes.add(node,
                           key + " is a key of a job's file, which --config does not read: ddprun run " + name + "."),
                 true;
        if (key != "arguments" && key != "args" && key != "command") return false;
        notes.add(node, "there is no key " + key +
                            "; the program and its arguments are program = [\"train\", \"--lr\", \"1\"].");
        return true;
      });
  file.settings = std::move(options_read.settings);
  file.mistakes = std::move(options_read.mistakes);
  return file;
}

}  // namespace ddprun::launcher

// What --config and a job file (jobs/job_file.h) have in common: options (settings/config_file.h), the program if the
// command line names none, and variables.
//
//   nproc-per-node = 4
//   program = ["train", "--lr", "0.1"]
//   [env]                                      # further variables for the workers
//   NCCL_DEBUG = "INFO"
//   [[rules]]                                  # what is done about failures: rules_file.h
//   class = "crash"
//   action = "restart-elsewhere"
//   [[metrics]]                                # numbers in rank 0's output: metrics_file.h
//   name = "loss"
//   regex = 'loss (\S+)'
//
// Pure: text in, settings and sentences out.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "agent/logs/output_metrics.h"
#include "launcher/config/rules_file.h"
#include "launcher/settings/option.h"

namespace ddprun::launcher {

struct OptionsFile {
  std::vector<settings::Setting> settings;
  std::vector<std::string> program;
  std::string program_place;  // "job.toml:3"
  std::map<std::string, std::string> env;
  Rules rules;
  std::vector<agent::MetricDefinition> metrics;
  std::vector<std::string> mistakes;
};

// `name` is the file's name, for "job.toml:3: ...".
// `read_further_key` comes first.
OptionsFile read_options_file(const std::string& name, const std::string& text,
                              const settings::ReadExtraKey& read_further_key = {});

// A table of variables for the workers: [env].
void read_env(const toml::node& node, std::map<std::string, std::string>& env, settings::FileNotes& notes);

}  // namespace ddprun::launcher

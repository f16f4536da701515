// The metrics of a job's file: numbers in rank 0's output, which become events and, under `ddprun run`, results.
//
//   [[metrics]]                                # or [[metric_definitions]]
//   name = "loss"
//   regex = 'loss[ =](\S+)'                    # PCRE2; its first group is the number
//
// Pure: TOML in, definitions and sentences out.
#pragma once
#include <string>
#include <vector>

#include "agent/logs/output_metrics.h"
#include "launcher/settings/config_file.h"

namespace ddprun::launcher {

bool is_metrics_key(const std::string& key);
// Refuses a name that is used twice.
std::vector<agent::MetricDefinition> read_metrics(const toml::node& node, settings::FileNotes& notes);

// As such a file; each with the place where it is written.
std::string print_metrics(const std::vector<agent::MetricDefinition>& metrics);

}  // namespace ddprun::launcher

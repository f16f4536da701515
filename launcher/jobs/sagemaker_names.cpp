#include "launcher/jobs/sagemaker_names.h"

#include <algorithm>
#include <iterator>
#include <map>

namespace ddprun::launcher {
namespace {

const std::map<std::string, std::string>& table_of_names() {
  static const std::map<std::string, std::string> kNames{
      {"base_job_name", "name"},
      {"job_name", "name"},
      {"entry_script", "entry_point"},
      {"source_code.source_dir", "source_dir"},
      {"source_code.entry_script", "entry_point"},
      {"source_code.command", "command"},
      {"args", "arguments"},
      {"instance_count", "nodes"},
      {"num_nodes", "nodes"},
      {"compute.instance_count", "nodes"},
      {"workers", "nproc_per_node"},
      {"process_count_per_node", "nproc_per_node"},
      {"distributed.process_count_per_node", "nproc_per_node"},
      {"max_runtime_in_seconds", "max_run"},
      {"stopping_condition.max_runtime_in_seconds", "max_run"},
      {"stopping_condition.max_wait_time_in_seconds", "max_wait"},
      {"stopping_condition.max_pending_time_in_seconds", "max_wait"},
      {"checkpoint_local_path", "snapshot.path"},
      {"checkpoint_config.local_path", "snapshot.path"},
      {"checkpoint_s3_uri", "snapshot.s3_uri"},
      {"checkpoint_config.s3_uri", "snapshot.s3_uri"},
      {"output_data_config.s3_output_path", "output_path"},
      {"environment", "env"},
  };
  return kNames;
}

constexpr const char* kWithoutMeaning[] = {"instance_type",
                                           "volume_size",
                                           "volume_size_in_gb",
                                           "use_spot_instances",
                                           "enable_managed_spot_training",
                                           "keep_alive_period_in_seconds",
                                           "role",
                                           "image_uri",
                                           "training_image",
                                           "py_version",
                                           "framework_version",
                                           "requirements",
                                           "ignore_patterns",
                                           "distribution",
                                           "distributed",
                                           "sagemaker_session"};

constexpr const char* kForeignTables[] = {"source_code", "compute",           "stopping_condition",
                                          "distributed", "checkpoint_config", "output_data_config"};

template <class Names>
bool is_listed(const std::string& name, const Names& names) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

}  // namespace

std::string own_name(const std::string& name) {
  const auto found = table_of_names().find(name);
  return found == table_of_names().end() ? name : found->second;
}

std::vector<std::string> sagemaker_names() {
  std::vector<std::string> out;
  for (const auto& [name, ours] : table_of_names()) out.push_back(name);
  return out;
}

bool is_sagemaker_table(const std::string& name) { return is_listed(name, kForeignTables); }

bool has_no_meaning(const std::string& name) { return is_listed(name, kWithoutMeaning); }

}  // namespace ddprun::launcher

#include "launcher/jobs/ended_job.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "agent/logs/log_layout.h"
#include "agent/process/file_thread.h"
#include "agent/process/job_cookie.h"
#include "launcher/config/inputs.h"
#include "launcher/config/machine.h"
#include "launcher/jobs/plain_record.h"
#include "rendezvous/base/json_text.h"

namespace ddprun::launcher {
namespace fs = std::filesystem;
namespace {

constexpr std::chrono::seconds kKeepLimit{1};

std::string absolute_or_empty(const std::string& path) {
  std::error_code failed;
  return path.empty() ? "" : fs::absolute(path, failed).lexically_normal().string();
}

std::string log_folder_of(const Config& config, const std::string& run_id) {
  std::error_code failed;
  const std::string folder = config.log_dir == "/dev/null" ? "" : absolute_or_empty(config.log_dir);
  if (config.log_dir.empty() && (config.tee.any() || config.redirects.any()))
    return fs::temp_directory_path(failed).string();  // in a folder there
  if (folder.empty() || config.log_layout == agent::LogTree::torchrun) return folder;
  return fs::path(folder) / agent::run_folder(config.log_layout, run_id);
}

PlainJob plain_job(const Start& start, const Config& config, const std::string& run_id, const agent::JobEnd& end) {
  std::error_code failed;
  PlainJob job{.place = config.hosts.empty() ? Place::here : Place::ssh,
               .command = start.words,
               .program = config.program.empty() ? "" : config.program.front(),
               .folder = fs::current_path(failed).string(),
               .run_id = run_id,
               .host = host_name(),
               .event_log = config.events == EventSink::file ? absolute_or_empty(config.event_file) : "",
               .log_folder = log_folder_of(config, run_id),
               .started = start.at,
               .ended = now_in_ms(),
               .nodes = std::max(1, static_cast<int>(config.hosts.size())),
               .exit_code = end.exit_code};
  job.command.insert(job.command.begin(), "ddprun");
  job.end = parse_json(agent::to_json(end));
  return job;
}

}  // namespace

MilliSeconds now_in_ms() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

bool take_record_variable() {
  const bool has_record = std::getenv(kHasRecordVariable) || std::getenv(agent::kCookieVariable);
  unsetenv(kHasRecordVariable);
  return !has_record;
}

bool is_first_node(const Config& config, const std::optional<rendezvous::Seat>& seat) {
  if (!several_nodes(config)) return true;
  if (seat) return seat->group_rank == 0;
  return config.rdzv_backend == Backend::fixed && config.node_rank == 0;
}

void keep_record(const Start& start, const Config& config, const std::string& run_id,
                 const std::optional<rendezvous::Seat>& seat, const agent::JobEnd& end) {
  if (!start.keeps_record) return;
  const auto environment = own_environment();
  if (!has_records_folder(environment)) return;
  signal(SIGXFSZ, SIG_IGN);  // a record that may not grow is not kept
  PlainJob job = plain_job(start, config, run_id, end);
  if (seat) job.nodes = seat->group_world_size, job.round = seat->round, job.restarts = seat->restarts;
  agent::FileThread files([](const std::string&) {}, {.last_write_limit = kKeepLimit});
  files.call("the job's record", [folder = records_folder(environment), job = std::move(job)]() -> std::string {
    keep_plain_record(folder, job);
    return {};
  });
}

}  // namespace ddprun::launcher

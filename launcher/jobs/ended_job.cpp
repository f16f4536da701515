#include "launcher/jobs/ended_job.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "agent/process/files/file_thread.h"
#include "agent/process/job_cookie.h"
#include "launcher/config/inputs.h"
#include "launcher/config/machine.h"
#include "launcher/jobs/plain_record.h"
#include "rendezvous/base/json_text.h"

namespace ddprun::launcher {
namespace fs = std::filesystem;
namespace {

constexpr std::chrono::seconds kKeepLimit{1};

PlainJob plain_job(const Start& start, const RecordFacts& facts, const agent::JobEnd& end) {
  std::error_code failed;
  PlainJob job{.place = facts.by_ssh ? Place::ssh : Place::here,
               .command = start.words,
               .program = facts.program,
               .folder = fs::current_path(failed).string(),
               .run_id = facts.run_id,
               .host = host_name(),
               .event_log = facts.event_log,
               .log_folder = facts.log_folder,
               .started = start.at,
               .ended = now_in_ms(),
               .nodes = facts.nodes,
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

bool is_first_node(const RecordFacts& facts, const std::optional<rendezvous::Seat>& seat) {
  return seat && facts.of_several_nodes ? seat->group_rank == 0 : facts.is_first_node;
}

void keep_record(const Start& start, const RecordFacts& facts, const std::optional<rendezvous::Seat>& seat,
                 const agent::JobEnd& end) {
  if (!start.keeps_record || !is_first_node(facts, seat)) return;
  const auto environment = own_environment();
  if (!has_records_folder(environment)) return;
  signal(SIGXFSZ, SIG_IGN);  // a record that may not grow is not kept
  PlainJob job = plain_job(start, facts, end);
  if (seat) job.nodes = seat->group_world_size, job.round = seat->round, job.restarts = seat->restarts;
  agent::FileThread files([](const std::string&) {}, {.last_write_limit = kKeepLimit});
  files.call("the job's record", [folder = records_folder(environment), job = std::move(job)]() -> std::string {
    keep_plain_record(folder, job);
    return {};
  });
}

}  // namespace ddprun::launcher

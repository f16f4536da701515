#include "launcher/launch.h"

#include <sched.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "agent/agent.h"
#include "agent/job_cookie.h"
#include "launcher/exit_codes.h"
#include "launcher/program.h"
#include "rendezvous/error.h"

extern char** environ;

namespace ddprun {
namespace {

constexpr const char* kLoopback = "127.0.0.1";

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

Environment environment() {
  Environment out;
  for (char** entry = environ; *entry; ++entry) {
    const std::string text = *entry;
    if (const std::size_t equals = text.find('='); equals != std::string::npos)
      out.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return out;
}

// A random UUID (RFC 9562, version 4), as torchrun gives a standalone job.
std::string random_run_id() {
  unsigned char b[16] = {};
  if (getrandom(b, sizeof b, 0) != sizeof b) throw Error("cannot make a run id", "no random bytes", "Pass --rdzv-id.");
  b[6] = static_cast<unsigned char>((b[6] & 0x0f) | 0x40);
  b[8] = static_cast<unsigned char>((b[8] & 0x3f) | 0x80);
  char text[40];
  std::snprintf(text, sizeof text, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1],
                b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
  return text;
}

FileKind kind_of(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return {};
  return {true, S_ISDIR(status.st_mode), access(path.c_str(), X_OK) == 0};
}

Surroundings surroundings() {
  std::error_code ignored;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", ignored);
  return {variable("PATH"), self.parent_path().string(), variable("PYTHON_EXEC"), kind_of};
}

int visible_gpus() {
  int found = 0;
  while (access(("/dev/nvidia" + std::to_string(found)).c_str(), F_OK) == 0) ++found;
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES")) {
    const std::string list = visible;
    const auto named = list.empty() || list == "-1" ? 0 : 1 + std::count(list.begin(), list.end(), ',');
    return std::min(found, static_cast<int>(named));
  }
  return found;
}

template <class Value>
Value read_as(const std::variant<Value, std::string>& parsed, const char* option) {
  if (const auto* why = std::get_if<std::string>(&parsed)) throw UsageError(option, *why);
  return std::get<Value>(parsed);
}

std::vector<std::string> words_of(const std::string& list) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at < list.size();) {
    const std::size_t comma = std::min(list.find(',', at), list.size());
    words.push_back(list.substr(at, comma - at));
    at = comma + 1;
  }
  return words;
}

std::string host_name() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return name;
}

LogOptions log_options(const Config& config) {
  LogOptions logs;
  logs.log_dir = config.log_dir;
  logs.tree = config.log_layout == "torchrun" ? LogTree::torchrun : LogTree::ddprun;
  logs.redirects = read_as(parse_stream_spec(config.redirects), "--redirects");
  logs.tee = read_as(parse_stream_spec(config.tee), "--tee");
  logs.console_ranks = read_as(parse_rank_set(config.local_ranks_filter), "--local-ranks-filter");
  logs.stdout_filters = words_of(config.stdout_filters);
  logs.stderr_filters = words_of(config.stderr_filters);
  logs.prefix = config.log_prefix;
  logs.size_max = static_cast<std::uint64_t>(config.log_size);
  logs.size_keep = config.log_keep;
  logs.colour = variable("NO_COLOR").empty();
  logs.role = config.role;
  logs.host = host_name();
  return logs;
}

AgentOptions agent_options(const Config& config, const Machine& machine, int keeper_pidfd) {
  Program program = find_program(config, surroundings());
  AgentOptions options;
  options.workers = worker_count(config.nproc_per_node, machine).value();
  const std::string run_id = config.rdzv_id.empty() ? random_run_id() : config.rdzv_id;
  const JobIdentity job{run_id, config.max_restarts, to_string(own_cookie(run_id))};
  options.command = {config.program.front(), program.path, program.argv, environment(), job};
  options.named = !config.rdzv_id.empty();
  options.stop.stop_grace = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(config.stop_grace_s));
  options.master_host = config.master_addr.empty() ? kLoopback : config.master_addr;
  options.store_address = options.master_host == kLoopback ? kLoopback : "";  // nobody else's business by default
  options.master_port = static_cast<std::uint16_t>(config.master_port);
  options.logs = log_options(config);
  options.keeper_pidfd = keeper_pidfd;
  options.verbose = config.verbose;
  return options;
}

int exit_code(const Outcome& outcome) {
  switch (outcome.verdict) {
    case Verdict::success:
      return kSuccess;
    case Verdict::worker_failed:
      return kWorkerFailed;
    case Verdict::interrupted:
      return kInterrupted + outcome.signal;
  }
  return kInternalError;
}

}  // namespace

Machine this_machine() {
  cpu_set_t mask;
  const int cpus = sched_getaffinity(0, sizeof mask, &mask) == 0 ? CPU_COUNT(&mask) : 1;
  return {std::max(cpus, 1), visible_gpus()};
}

int launch(const Config& config, const Machine& machine, int keeper_pidfd) {
  RoundPolicy policy;
  policy.restarts.max_restarts = config.max_restarts;
  return exit_code(Agent(agent_options(config, machine, keeper_pidfd), policy).run());
}

}  // namespace ddprun

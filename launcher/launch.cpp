#include "launcher/launch.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "agent/agent.h"
#include "agent/process/job_cookie.h"
#include "agent/tell/job_state.h"
#include "launcher/config/inputs.h"
#include "launcher/exit_code.h"
#include "launcher/plan/first_round.h"
#include "launcher/plan/search_context.h"
#include "launcher/print/dry_run.h"
#include "launcher/print/shown_command.h"
#include "rendezvous/base/error.h"
#include "rendezvous/base/print_line.h"

namespace ddprun::launcher {
namespace {

void say(const std::string& line) { print_line(stderr, "ddprun: " + line); }

// Makes the folder, and reads what earlier starts of the job left there.
void open_state(Plan& plan) {
  if (plan.state_dir.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(plan.state_dir, error);
  if (access(plan.state_dir.c_str(), W_OK | X_OK) != 0)
    throw UsageError("cannot write into the folder " + plan.state_dir + " (--state-dir)",
                     error ? error.message() : std::strerror(errno), "Name one that ddprun may write to.");
  plan.options.state.ledger = agent::state_file(plan.state_dir, plan.state_name);
  plan.policy.earlier_starts = agent::load_state(plan.options.state.ledger, say);
}

// Data loaders and collectives open thousands of files; the soft limit exists only for select(). Workers inherit it.
void raise_file_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

std::string interpreter_here() { return described(find_interpreter(search_context())); }

std::string dry_run(const Plan& plan) {
  const std::string python = plan.by_python ? interpreter_here() + "\n\n" : "";
  return python + dry_run_text(first_round(plan.options, own_environment()));
}

agent::JobEnd launch(Plan plan, int keeper_fd, const Start& start) {
  for (const std::string& sentence : plan.warnings) say(sentence);
  agent::AgentOptions& options = plan.options;
  options.command.job.cookie = to_string(agent::own_cookie(options.command.job.run_id));
  options.keeper_fd = keeper_fd;
  options.prints_end = start.prints_end;
  options.command_line = shown_command(start.words);
  if (!plan.preemption_probe.empty())
    options.probe = agent::probe_target(plan.preemption_probe,
                                        [](const std::string& path) { return is_program(kind_of_file(path)); });
  raise_file_limit();
  open_state(plan);
  const agent::JobResult result = agent::Agent(std::move(options), plan.policy).run();
  agent::JobEnd end = end_of(result, plan.exit);
  keep_record(start, plan.record, result.seat, end);
  return end;
}

}  // namespace ddprun::launcher

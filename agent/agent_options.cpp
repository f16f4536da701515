#include "agent/agent_options.h"

#include <csignal>
#include <filesystem>

namespace ddprun::agent {
namespace {

bool is_ignored(int signal) {
  struct sigaction now {};
  return sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

}  // namespace

std::set<int> signals_of(const AgentOptions& options) {
  std::set<int> signals(options.ending_signals.begin(), options.ending_signals.end());
  signals.insert({SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT, SIGCHLD, SIGWINCH});
  if (is_ignored(SIGHUP)) signals.erase(SIGHUP);  // under nohup it stays ignored
  return signals;
}

Tell::Options tell_options(const AgentOptions& options) {
  return {{options.command.typed, options.command.program, options.logs.host, options.own_error_file,
           options.command.core_dumps, options.prints_end, options.command.argv},
          {options.command.job.run_id, options.role, options.logs.host, options.rdzv_backend,
           std::filesystem::path(options.command.program).filename().string(), options.requeues,
           options.command_line.empty() ? options.command.typed : options.command_line},
          options.log_level,
          options.event_log,
          options.state,
          options.stop.preempt_exit_code,
          options.rules,
          !options.meeting,
          options.requested_rank.value_or(0) == 0};
}

DeskOptions desk_options(const AgentOptions& options) {
  return {options.command.program,
          options.metrics,
          {options.otlp, options.kubeflow, options.version, options.logs.host, options.command.job.run_id},
          options.logs.kept};
}

ContactOptions contact_options(const AgentOptions& options) {
  return {options.meeting, options.join_timeout, options.stop.stop_grace,
          options.rdzv_backend == "static" ? "--master-addr" : "--rdzv-endpoint"};
}

}  // namespace ddprun::agent

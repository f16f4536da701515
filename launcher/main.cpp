#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include "agent/process/files/file_thread.h"
#include "agent/process/keeper.h"
#include "agent/process/standard_streams.h"
#include "launcher/command/chaos_command.h"
#include "launcher/command/ctl_command.h"
#include "launcher/command/job_commands.h"
#include "launcher/command/report_command.h"
#include "launcher/command/stacks_command.h"
#include "launcher/config/cli.h"
#include "launcher/config/command_names.h"
#include "launcher/config/exit_codes.h"
#include "launcher/config/inputs.h"
#include "launcher/config/machine.h"
#include "launcher/host_launch.h"
#include "launcher/jobs/end_file.h"
#include "launcher/jobs/ended_job.h"
#include "launcher/launch.h"
#include "launcher/plan/search_context.h"
#include "launcher/print/print_config.h"
#include "launcher/ssh/ssh_command.h"
#include "launcher/starter.h"
#include "rendezvous/base/child_process.h"
#include "rendezvous/base/error.h"
#include "rendezvous/base/print_line.h"
#include "rendezvous/base/spelling.h"
#include "rendezvous/base/version.h"
#include "rendezvous/peer/token.h"

namespace ddprun::launcher {
namespace {

constexpr const char* kNoPidfds =
    "ddprun: this kernel has no pidfds (Linux 5.4 brought them): a thread waits for each worker's end, and processes "
    "of an earlier run are looked at every 5 ms until they have ended.";
constexpr const char* kNoSubreaper =
    "ddprun: this is an emulator without child subreapers: a process whose parent has ended outlives the job.";

void print_sentences(const std::vector<std::string>& sentences) {
  for (const std::string& sentence : sentences) print_line(stderr, "ddprun: " + visible(sentence));
}

agent::JobEnd complain(const std::vector<std::string>& sentences, ExitCode code, bool prints_end) {
  if (prints_end) print_sentences(sentences);
  agent::JobEnd end{code, {}, {}};
  for (const std::string& sentence : sentences) end.message += (end.message.empty() ? "" : "\n") + sentence;
  return end;
}

agent::JobEnd print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  return {};
}

Plan plan_of(const Config& config, const Machine& machine) {
  return make_plan(config, machine, search_context(), host_info(config, machine, !config.dry_run));
}

agent::JobEnd run(const Start& start, int keeper_fd) {
  Inputs inputs = process_inputs();
  inputs.commit = kCommit;
  wipe_token_variable();
  CommandLine line = read_command_line(start.words, inputs);
  if (const auto token = inputs.environment.find(rendezvous::kTokenVariable); token != inputs.environment.end())
    rendezvous::wipe(token->second);
  if (!line.answer.empty()) return print(line.answer);
  const Config& config = line.config;
  const Machine machine = this_machine();
  for (std::string& sentence : problems(config, machine, line.mistakes)) line.mistakes.push_back(std::move(sentence));
  print_sentences(line.warnings);
  if (!line.mistakes.empty()) return complain(line.mistakes, kUsage, start.prints_end);
  if (has_secrets(config)) hide_own_memory();
  if (config.print_config) return print(print_config(config, visible(interpreter_here())));
  if (config.dry_run && !config.hosts.empty()) return print(visible_lines(dry_run_on_hosts(config, inputs)));
  if (config.dry_run) return print(visible_lines(dry_run(plan_of(config, machine))));
  if (config.verbose) print_text(stderr, print_changed_config(config, visible(interpreter_here())));
  if (config.verbose && !has_pidfds()) print_line(stderr, kNoPidfds);
  if (config.verbose && !agent::is_child_subreaper()) print_line(stderr, kNoSubreaper);
  if (!config.hosts.empty()) return launch_on_hosts(plan_of_hosts(config, inputs), keeper_fd, start);
  return launch(plan_of(config, machine), keeper_fd, start);
}

agent::JobEnd run_under_keeper(const Start& start) try {
  return run(start, agent::continue_under_keeper(wipe_token_variable));
} catch (const UsageError& error) {
  return complain({error.what()}, kUsage, start.prints_end);
} catch (const Error& error) {
  return complain({error.what()}, kRendezvousImpossible, start.prints_end);
} catch (const std::exception& error) {
  return complain({error.what()}, kInternalError, start.prints_end);
}

// `ddprun status` and the like; empty: the words are a job to start.
std::optional<int> run_command(const std::vector<std::string>& words) {
  using Command = int (*)(const std::vector<std::string>& words);
  constexpr std::pair<std::string_view, Command> kCommands[] = {
      {"stacks", show_stacks}, {"ctl", control_job}, {"chaos", run_chaos}, {"report", report_events}};
  const auto* const found =
      std::find_if(std::begin(kCommands), std::end(kCommands), [&](const auto& one) { return one.first == words[0]; });
  const bool of_job = is_job_command(words[0]);
  if (found == std::end(kCommands) && !of_job) return {};
  if (std::getenv(rendezvous::kTokenVariable)) hide_own_memory();
  return of_job ? job_command(words) : found->second({words.begin() + 1, words.end()});
}

}  // namespace
}  // namespace ddprun::launcher

int main(int argc, char** argv) {
  ddprun::agent::open_missing_standard_streams();
  if (argc > 1)
    if (const auto code = ddprun::launcher::run_command({argv + 1, argv + argc})) return *code;
  if (argc == 2 && std::string_view(argv[1]) == ddprun::launcher::kNodeCommand)
    return ddprun::launcher::run_as_host_node();
  const std::string end_file = ddprun::launcher::take_end_file_variable();
  const bool prints_end = !ddprun::launcher::take_starter_variable();
  const bool keeps_record = ddprun::launcher::take_record_variable();
  const ddprun::agent::JobEnd end = ddprun::launcher::run_under_keeper(
      {{argv + 1, argv + argc}, ddprun::launcher::now_in_ms(), prints_end, keeps_record});
  ddprun::launcher::write_end_file(end_file, end);
  if (ddprun::agent::FileThread::any_left()) {
    std::fflush(stdout);
    ddprun::agent::tell_keeper_of_exit(end.exit_code);
  }
  return end.exit_code;
}

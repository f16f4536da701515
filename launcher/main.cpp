#include <cstdio>
#include <exception>

#include "agent/process/keeper.h"
#include "agent/process/standard_streams.h"
#include "launcher/cli.h"
#include "launcher/end_file.h"
#include "launcher/exit_codes.h"
#include "launcher/launch.h"
#include "launcher/machine.h"
#include "launcher/outside.h"
#include "launcher/print_config.h"
#include "rendezvous/base/error.h"
#include "rendezvous/base/print_line.h"
#include "rendezvous/base/spelling.h"

namespace ddprun::launcher {
namespace {

agent::JobEnd complain(const std::vector<std::string>& sentences, ExitCode code) {
  agent::JobEnd end{code, {}, {}};
  for (const std::string& sentence : sentences) {
    print_line(stderr, "ddprun: " + visible(sentence));
    end.message += (end.message.empty() ? "" : "\n") + sentence;
  }
  return end;
}

agent::JobEnd say(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  return {};
}

agent::JobEnd run(const std::vector<std::string>& arguments, int keeper_pidfd) {
  Outside outside = this_process();
  wipe_token_variable();
  CommandLine line = read_command_line(arguments, outside);
  if (const auto token = outside.environment.find(rendezvous::kTokenVariable); token != outside.environment.end())
    rendezvous::wipe(token->second);
  if (!line.answer.empty()) return say(line.answer);
  const Config& config = line.config;
  const Machine machine = this_machine();
  for (std::string& sentence : problems(config, machine)) line.mistakes.push_back(std::move(sentence));
  complain(line.warnings, kSuccess);
  if (!line.mistakes.empty()) return complain(line.mistakes, kUsage);
  if (config.print_config) return say(print_config(config));
  if (config.dry_run) return say(visible_lines(dry_run(config, machine)));
  if (config.verbose) print_text(stderr, print_config(config));
  return launch(config, machine, keeper_pidfd);
}

agent::JobEnd run_under_keeper(const std::vector<std::string>& arguments) try {
  return run(arguments, agent::continue_under_keeper(wipe_token_variable));
} catch (const UsageError& error) {
  return complain({error.what()}, kUsage);
} catch (const Error& error) {
  return complain({error.what()}, kRendezvousImpossible);
} catch (const std::exception& error) {
  return complain({error.what()}, kInternalError);
}

}  // namespace
}  // namespace ddprun::launcher

int main(int argc, char** argv) {
  ddprun::agent::open_missing_standard_streams();
  const std::string end_file = ddprun::launcher::take_end_file_variable();
  const ddprun::agent::JobEnd end = ddprun::launcher::run_under_keeper({argv + 1, argv + argc});
  ddprun::launcher::write_end_file(end_file, end);
  return end.exit_code;
}

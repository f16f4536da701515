#include <cstdio>
#include <exception>

#include "agent/process/keeper.h"
#include "agent/process/standard_streams.h"
#include "launcher/cli.h"
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

int complain(const std::vector<std::string>& sentences, ExitCode code) {
  for (const std::string& sentence : sentences) print_line(stderr, "ddprun: " + visible(sentence));
  return code;
}

int say(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  return kSuccess;
}

int run(const std::vector<std::string>& arguments, int keeper_pidfd) {
  Outside outside = this_process();
  wipe_token_variable();
  CommandLine line = read_command_line(arguments, outside);
  if (const auto token = outside.environment.find(kTokenVariable); token != outside.environment.end())
    wipe(token->second);
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

}  // namespace
}  // namespace ddprun::launcher

int main(int argc, char** argv) {
  ddprun::open_missing_standard_streams();
  try {
    const int keeper_pidfd = ddprun::continue_under_keeper(ddprun::launcher::wipe_token_variable);
    return ddprun::launcher::run({argv + 1, argv + argc}, keeper_pidfd);
  } catch (const ddprun::UsageError& error) {
    return ddprun::launcher::complain({error.what()}, ddprun::launcher::kUsage);
  } catch (const ddprun::Error& error) {
    return ddprun::launcher::complain({error.what()}, ddprun::launcher::kRendezvousImpossible);
  } catch (const std::exception& error) {
    return ddprun::launcher::complain({error.what()}, ddprun::launcher::kInternalError);
  }
}

#include "launcher/command/stacks_command.h"

#include <cstdio>

#include "launcher/config/exit_codes.h"
#include "launcher/running/running_jobs.h"
#include "rendezvous/base/error.h"
#include "rendezvous/base/print_line.h"

namespace ddprun::launcher {
namespace {

constexpr int kAnswerSeconds = 15;

int complain(const std::string& sentence, int code) {
  print_line(stderr, "ddprun stacks: " + sentence);
  return code;
}

}  // namespace

std::string stacks_help() {
  return "usage: ddprun stacks [JOB]\n"
         "Prints what every worker of a running job does now, on all its nodes, with the\n"
         "stacks of its threads; stops nothing.\n"
         "\n"
         "  JOB                      the job's --rdzv-id or its beginning, or the process\n"
         "                           id of a ddprun on this machine; it can be left out\n"
         "                           if one job runs here\n"
         "\n"
         "To run a program of that name: ddprun ./stacks\n";
}

int show_stacks(const std::vector<std::string>& words) {
  if (words.size() > 1 || (!words.empty() && words.front().starts_with('-'))) {
    const bool help = words.front() == "--help" || words.front() == "-h";
    print_text(help ? stdout : stderr, stacks_help());
    return help ? kSuccess : kUsage;
  }
  const std::vector<RunningAgent> agents = own_agents();
  const Choice choice = choose_job(agents, words.empty() ? "" : words.front());
  if (!choice.agent) return complain(choice.complaint, kUsage);
  try {
    const std::string text = ask(*choice.agent, agent::kAskStacks, kAnswerSeconds);
    if (text.empty()) return complain("the job has ended.", kInternalError);
    print_text(stdout, text);
    return kSuccess;
  } catch (const Error& error) {
    return complain(error.what(), kInternalError);
  }
}

}  // namespace ddprun::launcher

#include "launcher/config/command_names.h"

#include <map>

namespace ddprun::launcher {
namespace {

const std::map<std::string, const char*>& descriptions() {
  static const std::map<std::string, const char*> kDescriptions{
      {"run", "Runs the job that a TOML file describes, on this machine or as a node of a scheduler's job."},
      {"submit", "Starts a job that goes on without this shell, and prints its handle."},
      {"status", "What a job does: its round, nodes, ranks and steps, restarts, whom all wait for, metrics."},
      {"top", "What every rank of a running job does, once a second; without a terminal, one look."},
      {"describe", "All that is known of a job: times, exit code, why it failed, what it runs."},
      {"log", "Prints a job's output."},
      {"cancel", "Asks a job to save and to end."},
      {"list", "The jobs of this user: those that run, those that wait in a queue, those that have ended."},
  };
  return kDescriptions;
}

}  // namespace

std::vector<std::string> command_names() {
  std::vector<std::string> names{"chaos", "ctl", "report", "stacks"};
  for (const auto& [name, description] : descriptions()) names.push_back(name);
  return names;
}

bool is_job_command(const std::string& word) { return descriptions().contains(word); }

const char* description_of(const std::string& job_command) { return descriptions().at(job_command); }

}  // namespace ddprun::launcher

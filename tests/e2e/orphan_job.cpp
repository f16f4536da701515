#include "tests/e2e/orphan_job.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <regex>
#include <stdexcept>

#include "tests/e2e/programs.h"
#include "tests/support/places.h"

namespace ddprun::test {

using Clock = std::chrono::steady_clock;

OrphanJob::OrphanJob(const OrphanPlan& plan)
    : plan_(plan),
      command_(words(), {.env = {{"PET_STOP_GRACE", "1"}},  // some descendants are deaf
                         .cwd = folder_.path(),
                         .terminal = plan.terminal}) {}

OrphanJob::~OrphanJob() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_.path(), ignored);  // ends descendants that change their pid too fast for us
  eventually(
      [&] {
        const auto left = processes_of(folder());
        for (const Descendant& one : left) kill(one.pid, SIGKILL);
        return command_.ended() && left.empty();
      },
      kLimit);
}

pid_t OrphanJob::agent() const { return first_child_of(keeper()); }

pid_t OrphanJob::worker(int rank) const {
  const std::vector<Process> of_rank = command_.processes("RANK", std::to_string(rank));
  for (const Descendant& one : processes_of(folder())) {
    if (std::count(one.words.begin(), one.words.end(), kDescendantWord)) continue;
    if (std::any_of(of_rank.begin(), of_rank.end(), [&](const Process& process) { return process.pid == one.pid; }))
      return one.pid;
  }
  return 0;
}

void OrphanJob::wait_until(const std::string& said) {
  for (int rank = 0; rank < plan_.workers; ++rank) {
    const auto file = folder_ / ("1." + std::to_string(rank) + "." + said);
    if (!eventually([&] { return std::filesystem::exists(file); }, kLimit))
      throw std::runtime_error("no " + file.string() + "; ddprun says: " + command_.err());
  }
}

std::string OrphanJob::left() {
  std::string names;
  int looks_at_nothing = 0;  // a descendant that changes its pid may be missed in one scan of /proc
  eventually(
      [&] {
        names.clear();
        command_.ended();  // reaps it
        for (const Descendant& one : processes_of(folder())) names += " " + one.words.back();
        looks_at_nothing = names.empty() ? looks_at_nothing + 1 : 0;
        return looks_at_nothing == 2;
      },
      gone_within());
  return names;
}

std::vector<std::string> OrphanJob::words() const {
  std::vector<std::string> all = plan_.before;
  all.insert(all.end(), {ddprun_program(), "--nproc_per_node=" + std::to_string(plan_.workers), "--no-python"});
  for (const std::string& option : plan_.options) all.push_back(std::regex_replace(option, std::regex("%"), name()));
  all.push_back(programs_folder() + "/descendants");
  const auto theirs = worker_words(folder(), plan_.kinds, plan_.then);
  all.insert(all.end(), theirs.begin(), theirs.end());
  return all;
}

pid_t first_child_of(pid_t process) {
  const std::string pid = std::to_string(process);
  return std::atoi(read_file("/proc/" + pid + "/task/" + pid + "/children").c_str());
}

void poll_until(const std::function<bool()>& yes) {
  for (const auto until = Clock::now() + kLimit; !yes();)
    if (Clock::now() > until) throw std::runtime_error("waited in vain");
}

void kill_both(pid_t keeper, pid_t agent) {
  for (const int signal : {SIGSTOP, SIGKILL}) {
    kill(keeper, signal);
    kill(agent, signal);
  }
}

}  // namespace ddprun::test

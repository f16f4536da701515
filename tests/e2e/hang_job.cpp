#include "tests/e2e/hang_job.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "tests/e2e/programs.h"
#include "tests/support/catch.h"
#include "tests/support/free_port.h"

namespace ddprun::test {
namespace {

std::vector<std::string> options_of_all(int nodes, int port) {
  std::vector<std::string> words{"--nproc-per-node=" + std::to_string(ThreeRanks::kRanks / nodes), "--stop-grace=2"};
  if (nodes > 1)
    for (const std::string& word : {"--nnodes=" + std::to_string(nodes), std::string("--rdzv-backend=c10d"),
                                    "--rdzv-endpoint=localhost:" + std::to_string(port)})
      words.push_back(word);
  return words;
}

}  // namespace

ThreeRanks::ThreeRanks(int nodes, const std::vector<std::string>& options, const std::vector<std::string>& program,
                       const std::map<std::string, std::optional<std::string>>& env)
    : port_(nodes > 1 ? free_port() : 0) {
  std::filesystem::create_directory(stuck.folder() / "disk");
  std::vector<std::string> words = options_of_all(nodes, port_);
  words.insert(words.end(), options.begin(), options.end());
  for (int node = 0; node < nodes; ++node) {
    std::vector<std::string> own = words;
    if (nodes > 1) {
      own.push_back(std::string("--rdzv-conf=is_host=") + (node == 0 ? "true" : "false"));
      own.push_back("--node-rank=" + std::to_string(node));  // whoever comes first
    }
    own.insert(own.end(), program.begin(), program.end());
    agents.push_back(std::make_unique<Command>(job_of(own), CommandOptions{.env = env, .cwd = stuck.folder()}));
  }
}

bool ThreeRanks::prints(const std::string& text) {
  return std::any_of(agents.begin(), agents.end(), [&](auto& agent) { return has(agent->out() + agent->err(), text); });
}

std::string ThreeRanks::all_err() {
  std::string out;
  for (auto& agent : agents) out += agent->err();
  return out;
}

void ThreeRanks::all_end_well(std::chrono::seconds limit) {
  for (auto& agent : agents) CHECK(agent->wait_exit(limit) == exited(0));
}

pid_t ThreeRanks::worker(int rank, int round) {
  pid_t found = 0;
  const auto find = [&] {
    for (auto& agent : agents)
      for (const Process& one : agent->processes("RANK", std::to_string(rank))) {
        const auto environment = environment_of(one.pid);
        const auto its_round = environment.find("DDPRUN_ROUND");
        if (its_round != environment.end() && its_round->second == std::to_string(round)) found = one.pid;
      }
    return found != 0;
  };
  const bool is_there = eventually(find, kLimit);
  const std::string err = is_there ? "" : all_err();
  CAPTURE(rank, round, err);
  REQUIRE(is_there);
  return found;
}

pid_t ThreeRanks::agent_of(int node) {
  const auto all = agents.at(node)->processes();
  const auto agent =
      std::find_if(all.begin(), all.end(), [&](const Process& p) { return p.parent == agents.at(node)->pid(); });
  REQUIRE(agent != all.end());
  return agent->pid;
}

void FindingTimes::add(Seconds time) {
  double load = 0;
  getloadavg(&load, 1);
  seconds_.push_back(time.count());
  loads_.push_back(load);
}

std::string FindingTimes::in_words() const {
  if (seconds_.empty()) return {};
  const auto median = [](std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
  };
  char text[100];
  std::snprintf(text, sizeof text, "; found after %.2f s (median), %.2f s (worst), at load %.1f", median(seconds_),
                *std::max_element(seconds_.begin(), seconds_.end()), median(loads_));
  return text;
}

}  // namespace ddprun::test

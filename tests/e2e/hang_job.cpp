#include "tests/e2e/hang_job.h"

#include "tests/e2e/programs.h"
#include "tests/support/free_port.h"
#include "tests/support/soak.h"
#include "tests/support/test.h"

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
                       const std::map<std::string, std::optional<std::string>>& env, bool named_apart)
    : port_(nodes > 1 ? free_port() : 0) {
  std::filesystem::create_directory(stuck.folder() / "disk");
  for (int node = 0; node < nodes; ++node) {
    Words own, apart;
    if (nodes > 1)
      own = {std::string("--rdzv-conf=is_host=") + (node == 0 ? "true" : "false"),
             "--node-rank=" + std::to_string(node)};  // whoever comes first
    if (named_apart)
      apart = {"unshare", "--uts", "sh", "-c", "hostname slow" + std::to_string(node) + " && exec \"$0\" \"$@\""};
    agents.push_back(
        std::make_unique<Command>(joined({apart, {kDdprun}, options_of_all(nodes, port_), options, own, program}),
                                  CommandOptions{.env = env, .cwd = stuck.folder()}));
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

FindingTimes::Seconds find_hang(ThreeRanks& job, const HangFault& fault, int rank, std::chrono::seconds limit) {
  const bool has_fault = eventually([&] { return job.prints("fault\n"); }, limit);
  const auto begin = std::chrono::steady_clock::now();
  const std::string err = has_fault ? "" : job.all_err();
  CAPTURE(err);
  REQUIRE(has_fault);
  REQUIRE(eventually([&] { return job.prints(" hangs: it ") || job.prints(" stands still: it "); }, limit));
  const auto after = std::chrono::steady_clock::now() - begin;
  if (fault.name == "disk") job.stuck.answer();
  const std::string top = fault.function.empty() ? "" : ".*; in .*" + fault.function;
  REQUIRE_THAT(job.all_err(),
               Catch::Matchers::Matches("[\\s\\S]*rank " + std::to_string(rank) + " (hangs|stands still): it " +
                                        fault.sentence + ", after step \\d+; " + fault.others + top + "[\\s\\S]*"));
  return after;
}

void find_often(const std::string& title, int runs,
                const std::function<FindingTimes::Seconds(int rank, int step)>& find) {
  FindingTimes times;
  Series(title, runs, 20)
      .run(
          [&](std::uint64_t seed) {
            std::mt19937_64 random(seed);
            const int rank = static_cast<int>(random() % ThreeRanks::kRanks);
            const int step = 20 + static_cast<int>(random() % 3) * 10;
            times.add(find(rank, step));
          },
          [&] { return times.in_words(); });
}

std::string on_nodes(int nodes) { return std::to_string(nodes) + (nodes == 1 ? " node" : " nodes"); }

}  // namespace ddprun::test

// A job of three ranks of which one hangs, for tests: on one node, or on three nodes with a rank each. Its working
// folder has a file system that does not answer, at "stuck".
#pragma once
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/e2e/stuck_folder.h"
#include "tests/support/command.h"

namespace ddprun::test {

class ThreeRanks {
 public:
  static constexpr int kRanks = 3;

  // `program`: the workers' command line. All nodes take part from the first round on, unless `options` say otherwise.
  // `named_apart`: they are on machines of their own, slow0 to slow2 by name.
  ThreeRanks(int nodes, const std::vector<std::string>& options, const std::vector<std::string>& program,
             const std::map<std::string, std::optional<std::string>>& env = {}, bool named_apart = false);
  bool prints(const std::string& text);  // some agent or worker
  std::string all_err();
  // Each with the exit code 0.
  void all_end_well(std::chrono::seconds limit = kLimit);
  // Of a rank in the job's round.
  pid_t worker(int rank, int round = 1);
  // The process that runs a node, the keeper's child.
  pid_t agent_of(int node);

  int port() const { return port_; }  // of the rendezvous endpoint; 0: one node

  StuckFolder stuck;
  std::vector<std::unique_ptr<Command>> agents;

 private:
  int port_;
};

// How long it took from each fault until it was said, and how busy the machine was.
class FindingTimes {
 public:
  using Seconds = std::chrono::duration<double>;
  void add(Seconds time);
  std::string in_words() const;  // for a soak's row

 private:
  std::vector<double> seconds_, loads_;
};

struct HangFault {
  std::string name;
  std::string sentence;  // of the one to blame
  std::string others;    // what is said of them
  std::string function;  // on top of its stack
};

// Waits until the rank is said to hang or, if it is not ended yet, to stand still, with its function; then a disk that
// is stuck answers. How long after the fault it was said.
FindingTimes::Seconds find_hang(ThreeRanks& job, const HangFault& fault, int rank, std::chrono::seconds limit);

// One series of a row of the table: a fault in a random rank at a random step.
void find_often(const std::string& title, int runs,
                const std::function<FindingTimes::Seconds(int rank, int step)>& find);

std::string on_nodes(int nodes);  // "3 nodes"

}  // namespace ddprun::test

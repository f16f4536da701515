// Starts the ranks of one group by hand, as a launcher would, and compares the snapshots they leave.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/command.h"
#include "tests/support/free_port.h"
#include "tests/support/texts.h"

namespace ddprun::test {

using Environment = std::map<std::string, std::optional<std::string>>;

const CommandOptions kOneThread{.env = {{"OMP_NUM_THREADS", "1"}}};

// `count` processes of one command on this machine; rank 0 serves the store. One thread each. "{rank}" in a word or in
// a variable becomes the rank. Of a Python script all ranks are one command (forked_ranks.py).
class Ranks {
 public:
  Ranks(int count, Words argv, Environment env = {});
  // Some ranks of a group, as a person starts them: without a launcher's environment.
  static Ranks by_hand(const std::vector<int>& ranks, const Words& argv);
  Command& operator[](int rank) { return *commands_[static_cast<std::size_t>(rank)]; }
  std::vector<Ended> wait_all();
  // All of them; an end other than exit code 0 fails the test. Returns rank 0's.
  Ended wait_all_good();
  // All of them end with this exit code and say the same on stderr, which is returned.
  std::string wait_all_refused(int code = 1);

 private:
  Ranks() = default;
  void start(int rank, const Words& argv, const Environment& env);

  std::vector<std::unique_ptr<Command>> commands_;
};

// With it each rank has a GPU of its own even where all have the same one: each is the only rank of its node, and of
// its host in NCCL's view, which refuses a GPU that two ranks of a host have.
Environment each_on_its_own_node();

// A program of this build, or of the folder DDPRUN_TEST_PROGRAMS: a kit's tests run where nothing was built.
std::string program(const std::string& name);

// `train` with these arguments, on the CPU; as ranks that all end well, and as a process of its own.
Words train_with(Words arguments);
Ended run_ranks(int count, Words arguments);
Ended run_alone(Words arguments);

// `command` by a launcher with these options.
Words under_ddprun(const Words& options, const Words& command);

// The lines of `text` that begin with "epoch N step".
Words step_lines(const std::string& text);
// The numbers after "step N loss".
std::vector<double> losses_in(const std::string& text);
// The lines that begin with "epoch", without the speed.
Words epoch_lines(const std::string& text);

}  // namespace ddprun::test

// Starts the ranks of one group by hand, as a launcher would, and compares the snapshots they leave.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/command.h"
#include "tests/support/free_port.h"

namespace ddprun::test {

using Environment = std::map<std::string, std::optional<std::string>>;

// `count` processes of one command on this machine; rank 0 serves the store. One thread each. "{rank}" in a word or in
// a variable becomes the rank. Of a Python script all ranks are one command (forked_ranks.py).
class Ranks {
 public:
  Ranks(int count, std::vector<std::string> argv, Environment env = {});
  Command& operator[](int rank) { return *commands_[static_cast<std::size_t>(rank)]; }
  std::vector<Ended> wait_all();
  // All of them; an end other than exit code 0 fails the test. Returns rank 0's.
  Ended wait_all_good();

 private:
  std::vector<std::unique_ptr<Command>> commands_;
};

// With it each rank has a GPU of its own even where all have the same one: each is the only rank of its node, and of
// its host in NCCL's view, which refuses a GPU that two ranks of a host have.
Environment each_on_its_own_node();

// A program of this build, or of the folder DDPRUN_TEST_PROGRAMS: a kit's tests run where nothing was built.
std::string program(const std::string& name);

// `train` with these arguments, on the CPU.
std::vector<std::string> train_with(std::vector<std::string> arguments);

// The lines of `text` that begin with "epoch N step".
std::vector<std::string> step_lines(const std::string& text);

}  // namespace ddprun::test

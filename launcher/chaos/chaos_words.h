// The command line of `ddprun chaos`. Pure.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/coordination/inquiry/fault.h"

namespace ddprun::launcher {

struct ChaosWords {
  std::string job = {};                  // as status takes it; empty: the only one
  std::vector<std::string> access = {};  // of a job elsewhere: options of ddprun
  std::optional<std::uint64_t> seed = {};
  std::vector<rendezvous::FaultKind> faults = {};  // all, if none was named
  Duration every = std::chrono::seconds(30);   // from one fault to the next, and at least until the job has recovered
  Duration limit = std::chrono::seconds(120);  // of a recovery
  std::optional<Duration> time = {};           // of all faults
  std::optional<int> count = {};
  int ranks = 8;  // dry run
  bool dry_run = false, json = false;
  std::string answer = {};   // of --help: print it and exit with 0
  std::string mistake = {};  // a sentence
};

// `words`: those after "chaos".
ChaosWords read_chaos_words(const std::vector<std::string>& words);

}  // namespace ddprun::launcher

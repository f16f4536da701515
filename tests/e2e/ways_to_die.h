// The table of ways in which a job ends, for the tests of what it leaves behind.
#pragma once

#include <functional>
#include <random>
#include <string>
#include <vector>

#include "tests/e2e/orphan_job.h"

namespace ddprun::test {

using Random = std::mt19937_64;

struct WayToDie {
  std::string name;
  std::vector<std::string> options;                  // of ddprun
  std::string then;                                  // what its workers do when their descendants are up
  std::function<void(OrphanJob&, Random&)> trigger;  // called as soon as ddprun is started
  int code = -1;                                     // ddprun's exit code afterwards; -1: any or none
  std::vector<std::string> misses = {};              // kinds that survive it, as documented
  bool terminal = false;                             // has one worker, on a terminal
};

std::vector<WayToDie> ways_to_die();

}  // namespace ddprun::test

// How a job comes to its end: one table for the tests of what is left of it.
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
  std::vector<std::string> options;                 // of ddprun
  std::string then;                                 // what its workers do when their descendants are up
  std::function<void(OrphanJob&, Random&)> happen;  // called as soon as ddprun is started
  int code = -1;                                    // ddprun's exit code afterwards; -1: it need not have one
  std::vector<std::string> misses = {};             // kinds that survive it, as documented
  bool terminal = false;                            // there it has one worker
};

std::vector<WayToDie> ways_to_die();

}  // namespace ddprun::test

// The command line of `ddprun ctl`. Pure.
#pragma once
#include <ctime>
#include <string>
#include <vector>

#include "rendezvous/coordination/inquiry/act.h"

namespace ddprun::launcher {

struct CtlWords {
  std::string job = {};                  // as status takes it; empty: the only one
  std::vector<std::string> access = {};  // of a job elsewhere: options of ddprun
  bool stacks = false;                   // instead of an act
  rendezvous::Act act = {};              // without who does it
  std::string answer = {};               // of --help: print it and exit with 0
  std::string mistake = {};              // a sentence
};

// `words`: those after "ctl".
CtlWords read_ctl_words(const std::vector<std::string>& words);

// What was done and when, in one line: "14:03:07 pause: all workers are stopped until resume."
std::string act_line(const std::string& act, const std::string& answer, const std::tm& when);

}  // namespace ddprun::launcher

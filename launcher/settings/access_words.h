// The command line of what acts on a running job (ddprun ctl, chaos): its own options, where the job is if no node of
// it is on this machine, and the other words. Pure.
#pragma once
#include <functional>
#include <string>
#include <vector>

namespace ddprun::launcher {

struct OwnOption {
  const char* name;  // "dry-run"
  bool has_value = true;
};

struct WordsTaken {
  std::vector<std::string> plain = {};   // in their order
  std::vector<std::string> access = {};  // of a job elsewhere: options of ddprun
  bool help = false;                     // nothing else was read
  std::string mistake = {};              // a sentence
};

// `command`: "ddprun ctl". `take` gets each of its own options, and says what is wrong with the value; empty: nothing.
WordsTaken take_words(const std::vector<std::string>& words, const std::string& command,
                      const std::vector<OwnOption>& own,
                      const std::function<std::string(const std::string& name, const std::string& value)>& take);

// Of a command's help, from "JOB is ..." on.
extern const char* const kAccessHelp;

}  // namespace ddprun::launcher

// The command lines of `ddprun run`, `submit`, `status`, `top`, `describe`, `log`, `cancel` and `list`. Pure.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "launcher/jobs/job_record.h"

namespace ddprun::launcher {

struct JobWords {
  std::string command = {};                 // "run"
  std::string file = {};                    // run, submit
  std::string record = {};                  // run: the folder of a job that was submitted
  std::string token_file = {};              // run, with record: of this start
  std::string handle = {};                  // the others; empty: the newest job
  std::string from = {};                    // top: a file instead of a job
  std::vector<std::string> overrides = {};  // --set KEY=VALUE
  std::vector<std::string> access = {};     // status, top, log --rank: of a job elsewhere, --rdzv-endpoint and
                                            // who may ask; list: of etcd
  std::vector<std::string> arguments = {};  // those behind "--", for the program
  std::optional<int> rank = {};             // log: of one rank alone
  std::optional<double> watch = {};         // status: again each so many seconds
  Place to = Place::here;
  bool dry_run = false, wait = false, follow = false, json = false;

  std::string answer = {};   // of --help: print it and exit with 0
  std::string mistake = {};  // a sentence
};

// `words` begins with the command.
JobWords read_job_words(std::vector<std::string> words);

}  // namespace ddprun::launcher

// How a job ended, for the program that started ddprun: one JSON object, described in docs/events.md.
//
// Pure.
#pragma once
#include <optional>
#include <string>

namespace ddprun::agent {

struct JobEnd {
  int exit_code = 0;         // ddprun's own
  std::string message = {};  // what ddprun printed about it, a sentence or its report; empty: success
  struct FirstFailure {
    int rank = 0, local_rank = 0;
    std::string host = {};
    int exit_code = 0;  // -N: killed by signal N
    friend bool operator==(const FirstFailure&, const FirstFailure&) = default;
  };
  std::optional<FirstFailure> first_failure = {};
};

// One line, ended by '\n'.
std::string to_json(const JobEnd& end);

}  // namespace ddprun::agent

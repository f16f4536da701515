// How a job is handed over: with patience, and without forgetting one that the scheduler may have taken.
#pragma once
#include <chrono>
#include <functional>
#include <stdexcept>
#include <string>

namespace ddprun::launcher {

// The scheduler may have taken the job or not; what() says why that is not known, as a part of a sentence.
class SubmissionUnclear : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// An end of the program by us may leave a job that nobody knows, so it has long.
struct SubmissionPatience {
  std::chrono::milliseconds tell_after = std::chrono::seconds(30);
  std::chrono::milliseconds give_up_after = std::chrono::minutes(10);
  std::function<void(const std::string&)> tell = {};  // a sentence
};

}  // namespace ddprun::launcher

// What to say of something that is done again and again: that it fails, once, and that it works again. Pure.
#pragma once
#include <string>
#include <utility>

namespace ddprun::launcher {

class RecurringProblem {
 public:
  // `problem` of one more try; empty: it went well. Returns a sentence, or nothing: `failing` with the problem behind a
  // colon, or `again`.
  std::string on(const std::string& problem, const std::string& failing, const std::string& again) {
    const bool failed = !problem.empty();
    if (std::exchange(fails_, failed) == failed) return {};
    return failed ? failing + ": " + problem + "." : again + ".";
  }
  bool fails() const { return fails_; }

 private:
  bool fails_ = false;
};

}  // namespace ddprun::launcher

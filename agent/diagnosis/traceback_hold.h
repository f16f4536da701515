// Holds back what a worker writes to stderr from the start of a Python traceback: if the worker dies of it, the report
// quotes it, and the console need not show it as well. What faulthandler writes line by line stays together so.
//
// Pure. The caller decides when to stop waiting for the worker's end: release().
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace ddprun::agent {

class TracebackHold {
 public:
  static constexpr std::size_t kBytesMax = std::size_t{64} * 1024;  // a worker that writes more is not about to die

  // Returns what may be shown now; the rest is held.
  std::string take(std::string_view bytes);
  bool holds() const { return !held_.empty(); }
  bool holds_traceback() const { return started_; }  // not only what may become one
  // Returns all that is held; the next traceback is held again.
  std::string release();

 private:
  std::string held_;
  bool started_ = false;
  bool line_start_ = true;  // whether the held text, or the next byte, begins a line
};

// Whether what is held back may begin with this line.
bool begins_traceback(std::string_view line);
// "Fatal Python error: Segmentation fault": stacks follow, the innermost call first.
bool begins_fatal_error(std::string_view line);

// Without the "[rank3]: " that PyTorch puts before each line of a traceback.
std::string_view without_rank(std::string_view line);

}  // namespace ddprun::agent

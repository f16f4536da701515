// Cuts a worker's bytes into whole lines, each with a prefix before it, and remembers the last lines.
//
// A line ends with "\n", "\r\n", or a "\r" with anything else after it, with which progress bars redraw themselves. The
// bytes are not changed.
#pragma once
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/base/time.h"

namespace ddprun::agent {

// Holds back the start of a line until its end arrives.
//
// A bar that writes "\r 10%" and then computes for an hour would be held back just as long. So the text after a "\r"
// may be shown early, followed by a "\r" of our own, which leaves a clean line to the next writer. It is dropped when
// the bar's own "\r" then completes it, and written again when it is completed otherwise.
class LineBuffer {
 public:
  static constexpr std::size_t kBytesMax = std::size_t{1024} * 1024;  // a longer line is passed on in pieces

  LineBuffer() = default;
  // Passes on only lines that contain any of these.
  explicit LineBuffer(std::vector<std::string> needles) : needles_(std::move(needles)) {}

  // Appends to `out` what may be written now. It ends with a line end, except a piece without a prefix.
  void take(std::string_view bytes, std::string_view prefix, std::string& out);
  // The rest, once no more bytes come; `end_line` adds a missing line end.
  void take_rest(std::string_view prefix, std::string& out, bool end_line);

  // A redraw is held back that has not been shown: wait some 100 ms for the rest, then show it.
  bool holds_redraw() const { return (after_return_ || held_.ends_with('\r')) && shown_ != held_.size(); }
  void show_redraw(std::string_view prefix, std::string& out);

 private:
  void emit(std::string_view line, std::string_view prefix, std::string& out);
  void hold(std::string_view start, std::string_view prefix, std::string& out);
  void resolve_return(std::string_view& bytes, std::string_view prefix, std::string& out);
  bool wanted(std::string_view line) const;

  std::vector<std::string> needles_;
  std::string held_;
  bool after_return_ = false;  // the line before ended with "\r"
  std::size_t shown_ = 0;      // this much of held_ has been shown early
};

// The last bytes of a stream, and when they came.
class LastBytes {
 public:
  static constexpr std::size_t kBytes = 1024;  // at least, of a stream that has brought more
  void add(std::string_view bytes, TimePoint now);
  const std::string& bytes() const { return bytes_; }
  TimePoint at() const { return at_; }

 private:
  std::string bytes_;
  TimePoint at_ = {};
};

// The last lines of a stream, each cut at kLineMax bytes.
class Tail {
 public:
  static constexpr std::size_t kLines = 20;
  static constexpr std::size_t kLineMax = 1024;
  void add(std::string_view bytes);
  std::vector<std::string> lines() const;

 private:
  void end_line();

  std::deque<std::string> lines_;
  std::string current_;
};

}  // namespace ddprun::agent

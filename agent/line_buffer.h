// Cuts a worker's bytes into pieces that end at a line's end, and remembers the last lines.
#pragma once
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun {

// Holds back the start of a line until its end is there. '\r' ends a line too: progress bars redraw with it.
class LineBuffer {
 public:
  static constexpr std::size_t kBytesMax = 64 * 1024;  // a longer line is passed on in pieces
  // What may be written now; may be empty.
  std::string take(std::string_view bytes);
  // The rest, once no more bytes come.
  std::string take_rest() { return std::exchange(held_, {}); }

 private:
  std::string held_;
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

}  // namespace ddprun

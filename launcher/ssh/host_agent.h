// The agent of one host, a ddprun of its own, as a child of the process that speaks for it. Edge.
//
// For the main thread and its io_context. The agent dies with this process (starter.h); it gets the job's token and
// its configuration file by other ways than its command line.
#pragma once
#include <sys/types.h>

#include <array>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>

#include "agent/logs/job_end.h"
#include "agent/logs/line_buffer.h"
#include "rendezvous/base/fd.h"

namespace ddprun::launcher {

class HostAgent {
 public:
  struct Listener {
    std::function<void(int stream, std::string lines)> on_output;  // whole lines of 1, 2, kEventStream
    std::function<void(bool reported, agent::JobEnd end)> on_end;
    std::function<bool()> may_read;  // false: nothing is read until resume()
  };
  // `end_lines`: a last line without an end gets one, as other hosts write to the same place.
  HostAgent(asio::io_context& io, bool end_lines, Listener listener);
  ~HostAgent();
  HostAgent(const HostAgent&) = delete;
  HostAgent& operator=(const HostAgent&) = delete;

  static constexpr const char* kConfigPath = "/dev/fd/4";
  static constexpr const char* kEventPath = "/dev/fd/5";
  struct Order {
    std::vector<std::string> words;  // without the program's own name
    std::string token, config_text;
    bool sends_events = false;  // those that it writes to kEventPath are the stream kEventStream
  };
  // Throws Error.
  void start(const Order& order);
  bool runs() const { return pid_ > 0 && !ended_; }
  void signal(int number) const;
  void resume();

 private:
  struct Stream {
    Stream(asio::io_context& io, int its_number) : number(its_number), pipe(io), redraw(io) {}
    const int number;
    asio::posix::stream_descriptor pipe;
    asio::steady_timer redraw;  // a progress bar is shown before its end
    agent::LineBuffer lines;
    std::array<char, 65'536> piece;
    bool ended = false, paused = false;
  };
  void read(Stream& stream);
  void take(Stream& stream, std::string_view bytes);
  void show_redraw_later(Stream& stream);
  void end_stream(Stream& stream);
  void await_end();
  void limit_output();
  void end_if_done();

  asio::io_context& io_;
  const bool end_lines_;
  Listener listener_;
  Stream out_, err_, events_;
  asio::posix::stream_descriptor process_fd_;
  asio::steady_timer drain_;
  pid_t pid_ = 0;
  int exit_code_ = 0;
  bool ended_ = false, told_ = false;
  std::filesystem::path folder_;  // of the end file
};

}  // namespace ddprun::launcher

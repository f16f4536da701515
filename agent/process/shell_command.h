// A shell command that the agent runs beside the workers: under sh, in a session of its own, without input.
//
// For the agent's main thread and its io_context. What it leaves in its process group ends with it. Of its output only
// the last 64 KiB are kept, so one that writes without an end takes no memory.
#pragma once
#include <sys/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>

#include "rendezvous/base/child_process.h"
#include "rendezvous/base/fd.h"
#include "rendezvous/coordination/round/failure_class.h"

namespace ddprun::agent {

class ShellCommand {
 public:
  // The status is empty if it is unknown, as somebody else reaped the process.
  using OnEnd = std::function<void(const std::optional<rendezvous::ExitStatus>& status)>;
  // `environment`: NAME=value. `keep_output`: for last_line().
  ShellCommand(asio::io_context& io, std::string text, std::vector<std::string> environment, bool keep_output = false);
  ~ShellCommand();
  ShellCommand(const ShellCommand&) = delete;
  ShellCommand& operator=(const ShellCommand&) = delete;

  // While it does not run. A command that cannot be started ends at once, in this call.
  void start(OnEnd on_end);
  // Its process group gets SIGKILL; on_end follows.
  void kill();
  // Its process, which nobody else may reap; empty: it does not run.
  std::optional<pid_t> child() const;
  // The last line that the last run wrote to stdout or stderr; empty: none.
  std::string last_line() const;

 private:
  struct Running {
    pid_t pid;
    asio::posix::stream_descriptor fd;

    ChildProcess child() { return {pid, fd.native_handle()}; }
  };
  struct Output;
  Fd open_output();
  void wait();
  void collect();

  asio::io_context& io_;
  const std::string text_;
  const std::vector<std::string> environment_;
  const bool keep_output_;
  std::shared_ptr<Output> output_;  // of the last run; null: it is not kept
  OnEnd on_end_;
  std::optional<Running> running_;
};

}  // namespace ddprun::agent

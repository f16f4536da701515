// Runs the commands that copy a job's snapshot to and from a place that outlives the machine.
//
// For one io_context's thread. One command at a time.
#pragma once
#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/process/files/file_thread.h"
#include "agent/process/shell_command.h"
#include "launcher/jobs/job_description.h"
#include "rendezvous/base/time.h"

namespace ddprun::launcher {

// The command with {path} replaced, quoted for the shell.
std::string with_path(std::string command, const std::string& path);

// Differs when the file, or one in the folder, was written or replaced; empty: there is nothing.
std::string fingerprint(const std::filesystem::path& path);

// Finds the fingerprint by a thread: a file system may not answer.
class SnapshotLook {
 public:
  explicit SnapshotLook(std::filesystem::path path);
  void begin();
  bool goes_on() const { return begun_ != taken_; }
  // Once, what the look has found that began last; empty: it goes on.
  std::optional<std::string> take();

 private:
  struct Shared;
  const std::shared_ptr<Shared> shared_;
  agent::FileThread thread_;
  int begun_ = 0, taken_ = 0;
};

class SnapshotCopier {
 public:
  // "" or what went wrong: "exited with code 1: no such bucket".
  using OnEnd = std::function<void(const std::string& problem)>;

  // `environment`: NAME=value, for the commands, which run in our working folder.
  SnapshotCopier(asio::io_context& io, const SnapshotCopy& copy, std::vector<std::string> environment);

  // Whether there is a command to fetch it, and nothing at its place yet.
  bool wants_fetch() const;
  void fetch(OnEnd on_end);
  // Stores it if it has changed since the last copy, which is `every` ago; not while a command runs. Else on_end is not
  // called. What it sees is what it has begun to look for when it was called before.
  void store_if_due(TimePoint now, OnEnd on_end);
  // Stores it if it has changed since the last copy that went well, after the command that runs.
  void store_last(OnEnd on_end);
  // Ends the command that runs, by SIGKILL, and begins none any more. `why`, "was ended by SIGTERM", is what went wrong
  // with it, and with what has not begun. One that the kernel holds is left after a moment.
  void stop(const std::string& why);

 private:
  void look_for_last();
  void await_look();
  void store(const std::string& found, OnEnd on_end);
  void run(const std::string& command, OnEnd on_end);
  void cut(const std::string& why);
  void ended(const std::string& problem);
  void after(Duration time, void (SnapshotCopier::*then)());
  void over_limit();
  void leave_alone();

  asio::io_context& io_;
  SnapshotCopy copy_;
  std::vector<std::string> environment_;
  std::string stored_;  // the fingerprint of what was copied
  SnapshotLook look_;
  TimePoint next_{};
  std::unique_ptr<agent::ShellCommand> command_;
  asio::steady_timer timer_;
  int waits_ = 0;     // counts what the timer was set for
  std::string cut_;   // why the command was ended
  std::string stop_;  // why no other one begins
  OnEnd on_end_;      // of the command
  OnEnd last_;        // store_last() waits for the command, or for a look
};

}  // namespace ddprun::launcher

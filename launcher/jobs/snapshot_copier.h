// Runs the commands that copy a job's snapshot to and from a place that outlives the machine.
//
// For one io_context's thread. One command at a time.
#pragma once
#include <asio/io_context.hpp>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/process/shell_command.h"
#include "launcher/jobs/job_description.h"
#include "rendezvous/base/time.h"

namespace ddprun::launcher {

// The command with {path} replaced, quoted for the shell.
std::string with_path(std::string command, const std::string& path);

// Differs when the file, or one in the folder, was written or replaced; empty: there is nothing.
std::string fingerprint(const std::filesystem::path& path);

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
  // called.
  void store_if_due(TimePoint now, OnEnd on_end);
  // Stores it if it has changed since the last copy that went well, after the command that runs.
  void store_last(OnEnd on_end);
  void kill();

 private:
  void store(OnEnd on_end);
  void run(const std::string& command, OnEnd on_end);

  asio::io_context& io_;
  SnapshotCopy copy_;
  std::vector<std::string> environment_;
  std::string stored_;  // the fingerprint of what was copied
  TimePoint next_{};
  std::unique_ptr<agent::ShellCommand> command_;
  OnEnd after_;  // store_last() waits for the command that runs
};

}  // namespace ddprun::launcher

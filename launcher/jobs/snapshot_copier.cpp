#include "launcher/jobs/snapshot_copier.h"

#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "agent/process/exit_status.h"
#include "rendezvous/base/spelling.h"

namespace ddprun::launcher {
namespace fs = std::filesystem;
namespace {

std::string stamp(const fs::path& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return {};
  return std::to_string(status.st_mtim.tv_sec) + "." + std::to_string(status.st_mtim.tv_nsec) + "/" +
         std::to_string(status.st_size) + "/" + std::to_string(status.st_ino) + ";";
}

std::string problem_in(const std::optional<rendezvous::ExitStatus>& status, const std::string& last_line) {
  if (!status) return "ended, nobody knows how";
  if (status->ok()) return {};
  return agent::in_words(*status) + (last_line.empty() ? "" : ": " + last_line);
}

}  // namespace

std::string with_path(std::string command, const std::string& path) {
  constexpr std::string_view kPath = "{path}";
  const std::string quoted = shell_word(path);
  for (std::size_t at = 0; (at = command.find(kPath, at)) != std::string::npos; at += quoted.size())
    command.replace(at, kPath.size(), quoted);
  return command;
}

std::string fingerprint(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return stamp(path);
  std::vector<std::string> files;
  for (auto it = fs::recursive_directory_iterator(path, ignored); it != fs::recursive_directory_iterator();
       it.increment(ignored)) {
    if (it->is_regular_file(ignored)) files.push_back(it->path().string() + stamp(it->path()));
    if (ignored) break;
  }
  std::sort(files.begin(), files.end());
  std::string out;
  for (const std::string& file : files) out += file;
  return out;
}

SnapshotCopier::SnapshotCopier(asio::io_context& io, const SnapshotCopy& copy, std::vector<std::string> environment)
    : io_(io), copy_(copy), environment_(std::move(environment)), stored_(fingerprint(copy.path)) {}

bool SnapshotCopier::wants_fetch() const { return !copy_.fetch.empty() && fingerprint(copy_.path).empty(); }

void SnapshotCopier::fetch(OnEnd on_end) {
  run(copy_.fetch, [this, on_end = std::move(on_end)](const std::string& problem) {
    stored_ = fingerprint(copy_.path);
    on_end(problem);
  });
}

void SnapshotCopier::store_if_due(TimePoint now, OnEnd on_end) {
  if (copy_.store.empty() || command_ || now < next_) return;
  if (const std::string found = fingerprint(copy_.path); found.empty() || found == stored_) return;
  next_ = now + copy_.every;
  store(std::move(on_end));
}

void SnapshotCopier::store_last(OnEnd on_end) {
  if (copy_.store.empty()) return on_end("");
  if (!command_) return store(std::move(on_end));
  after_ = std::move(on_end);
}

void SnapshotCopier::kill() {
  if (command_) command_->kill();
}

// Nothing has changed: on_end is called all the same.
void SnapshotCopier::store(OnEnd on_end) {
  const std::string now = fingerprint(copy_.path);
  if (now.empty() || now == stored_) return on_end("");
  run(copy_.store, [this, now, on_end = std::move(on_end)](const std::string& problem) {
    if (problem.empty()) stored_ = now;
    on_end(problem);
  });
}

void SnapshotCopier::run(const std::string& command, OnEnd on_end) {
  command_ = std::make_unique<agent::ShellCommand>(io_, with_path(command, copy_.path), environment_, true);
  command_->start([this, on_end = std::move(on_end)](const std::optional<rendezvous::ExitStatus>& status) {
    const std::unique_ptr<agent::ShellCommand> ended = std::exchange(command_, nullptr);
    on_end(problem_in(status, ended->last_line()));
    if (after_) store(std::exchange(after_, {}));
  });
}

}  // namespace ddprun::launcher

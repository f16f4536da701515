#include "launcher/jobs/snapshot_copier.h"

#include <sys/stat.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "agent/process/exit_status.h"
#include "rendezvous/base/print_line.h"
#include "rendezvous/base/spelling.h"

namespace ddprun::launcher {
namespace fs = std::filesystem;
namespace {

constexpr std::chrono::milliseconds kLastLookEvery{20};  // for the last one
constexpr std::chrono::seconds kKillLimit{5};            // a command that is in the kernel longer is left there

std::string stamp(const fs::path& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return {};
  return std::to_string(status.st_mtim.tv_sec) + "." + std::to_string(status.st_mtim.tv_nsec) + "/" +
         std::to_string(status.st_size) + "/" + std::to_string(status.st_ino) + ";";
}

std::string in_words(Duration time) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
  return ms < 10'000 ? std::to_string(ms) + " ms" : std::to_string(ms / 1000) + " s";
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
    std::error_code gone;  // the program replaces its files meanwhile
    if (it->is_regular_file(gone)) files.push_back(it->path().string() + stamp(it->path()));
  }
  std::sort(files.begin(), files.end());
  std::string out;
  for (const std::string& file : files) out += file;
  return out;
}

struct SnapshotLook::Shared {
  explicit Shared(fs::path of) : path(std::move(of)) {}

  const fs::path path;
  std::mutex mutex = {};
  int look = 0;  // that was the last to end
  std::string found = {};

  void run(int number) {
    std::string now = fingerprint(path);
    const std::lock_guard lock(mutex);
    look = number;
    found = std::move(now);
  }
};

SnapshotLook::SnapshotLook(fs::path path)
    : shared_(std::make_shared<Shared>(std::move(path))),
      thread_([](const std::string& text) { print_line(stderr, "ddprun run: " + text + "."); }) {}

void SnapshotLook::begin() {
  const auto work = [shared = shared_, number = ++begun_]() -> std::string {
    shared->run(number);
    return {};
  };
  if (!thread_.call("the snapshot " + shared_->path.string(), work)) work();
}

std::optional<std::string> SnapshotLook::take() {
  const std::lock_guard lock(shared_->mutex);
  if (!goes_on() || shared_->look != begun_) return {};
  taken_ = begun_;
  return shared_->found;
}

SnapshotCopier::SnapshotCopier(asio::io_context& io, const SnapshotCopy& copy, std::vector<std::string> environment)
    : io_(io),
      copy_(copy),
      environment_(std::move(environment)),
      stored_(fingerprint(copy.path)),
      look_(copy.path),
      timer_(io) {}

bool SnapshotCopier::wants_fetch() const { return !copy_.fetch.empty() && fingerprint(copy_.path).empty(); }

void SnapshotCopier::fetch(OnEnd on_end) {
  run(copy_.fetch, [this, on_end = std::move(on_end)](const std::string& problem) {
    stored_ = fingerprint(copy_.path);
    on_end(problem);
  });
}

void SnapshotCopier::store_if_due(TimePoint now, OnEnd on_end) {
  if (copy_.store.empty() || command_ || now < next_) return;
  const auto found = look_.take();
  if (!found && !look_.goes_on()) look_.begin();
  if (!found || found->empty() || *found == stored_) return;
  next_ = now + copy_.every;
  store(*found, std::move(on_end));
}

void SnapshotCopier::store_last(OnEnd on_end) {
  if (copy_.store.empty()) return on_end("");
  last_ = std::move(on_end);
  if (!command_) look_for_last();
}

// An earlier look may have seen an older one.
void SnapshotCopier::look_for_last() {
  look_.begin();
  await_look();
}

void SnapshotCopier::await_look() {
  const auto found = look_.take();
  if (!found) return after(kLastLookEvery, &SnapshotCopier::await_look);
  store(*found, std::exchange(last_, {}));
}

void SnapshotCopier::stop(const std::string& why) {
  stop_ = why;
  if (command_) return cut(why);
  ++waits_;
  if (last_) std::exchange(last_, {})(why);
}

// Nothing has changed: on_end is called all the same.
void SnapshotCopier::store(const std::string& found, OnEnd on_end) {
  if (found.empty() || found == stored_) return on_end("");
  run(copy_.store, [this, found, on_end = std::move(on_end)](const std::string& problem) {
    if (problem.empty()) stored_ = found;
    on_end(problem);
  });
}

void SnapshotCopier::run(const std::string& command, OnEnd on_end) {
  on_end_ = std::move(on_end);
  after(copy_.limit, &SnapshotCopier::over_limit);
  try {
    command_ = std::make_unique<agent::ShellCommand>(io_, with_path(command, copy_.path), environment_, true);
    command_->start([this](const std::optional<rendezvous::ExitStatus>& status) {
      ended(problem_in(status, command_->last_line()));
    });
  } catch (const std::exception& error) {
    ended(std::string("could not be started: ") + error.what());
  }
}

void SnapshotCopier::ended(const std::string& problem) {
  const std::unique_ptr<agent::ShellCommand> command = std::exchange(command_, nullptr);
  const std::string why = std::exchange(cut_, "");
  ++waits_;
  std::exchange(on_end_, {})(problem.empty() || why.empty() ? problem : why);
  if (!last_ || command_) return;
  if (stop_.empty()) return look_for_last();
  std::exchange(last_, {})(stop_);
}

void SnapshotCopier::cut(const std::string& why) {
  cut_ = why;
  command_->kill();
  after(kKillLimit, &SnapshotCopier::leave_alone);
}

void SnapshotCopier::over_limit() { cut("has not ended within " + in_words(copy_.limit) + " (snapshot.limit)"); }

void SnapshotCopier::leave_alone() { ended("is held by the kernel"); }

void SnapshotCopier::after(Duration time, void (SnapshotCopier::*then)()) {
  timer_.expires_after(time);
  timer_.async_wait([this, then, wait = ++waits_](const asio::error_code& error) {
    if (!error && wait == waits_) (this->*then)();
  });
}

}  // namespace ddprun::launcher

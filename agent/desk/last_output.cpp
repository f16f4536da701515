#include "agent/desk/last_output.h"

#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>

#include <asio/post.hpp>

#include "agent/process/wrappers.h"

namespace ddprun::agent {
namespace {

using FilesByWorker = std::map<pid_t, std::vector<FileOutput>>;

Duration age_of(const FileEnd& end) {
  const auto age = std::chrono::system_clock::now() - end.written;
  return std::max(std::chrono::duration_cast<Duration>(age), Duration::zero());  // a file server has its own clock
}

}  // namespace

FilesByWorker read_output(const std::vector<pid_t>& workers) {
  OutputFiles files;
  FilesByWorker out;
  for (const pid_t worker : workers) {
    std::vector<pid_t> writers{worker};
    for (const BelowWrapper& below : below_wrapper(worker)) writers.push_back(below.pid);
    for (const pid_t writer : writers)
      for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) {
        const FileEnd* end = files.end_of(writer, fd);
        // A script may write more than logs: `make_key > key.pem`.
        if (end && (writer == worker || !end->is_private)) out[worker].push_back({fd == STDOUT_FILENO, *end});
      }
  }
  return out;
}

// Of one request, for the thread.
struct LastOutput::Answer {
  std::mutex mutex;
  bool awaited = true, in_work = true;
  FilesByWorker files;

  FilesByWorker take() {
    const std::lock_guard lock(mutex);
    awaited = false;
    return std::move(files);
  }
  bool is_awaited() {
    const std::lock_guard lock(mutex);
    return awaited;
  }
  bool is_stuck() {
    const std::lock_guard lock(mutex);
    return !awaited && in_work;
  }
};

LastOutput::LastOutput(asio::io_context& io, Passed passed, Read read)
    : io_(io), passed_(std::move(passed)), read_(std::move(read)) {}

LastOutput::~LastOutput() {
  for (auto& [serial, request] : requests_) request.answer->take();
}

void LastOutput::add_to(rendezvous::NodeReport report, Take take) {
  const bool any_runs =
      std::any_of(report.ranks.begin(), report.ranks.end(), [](const auto& rank) { return rank.pid != 0; });
  if (!any_runs) return take(std::move(report));
  const int serial = ++last_;
  Request& request = requests_[serial];
  request.report = std::move(report);
  request.take = std::move(take);
  request.answer = std::make_shared<Answer>();
  if (!begin_reading(serial, request)) return finish(serial);
  request.timer = std::make_unique<asio::steady_timer>(io_, kReadLimit);
  request.timer->async_wait([this, serial](const asio::error_code& error) {
    if (!error) finish(serial);
  });
}

// While a file system holds the thread, nobody waits for it again.
bool LastOutput::begin_reading(int serial, const Request& request) {
  if (last_answer_ && last_answer_->is_stuck()) return false;
  last_answer_ = request.answer;
  std::vector<pid_t> workers;
  for (const rendezvous::RankView& rank : request.report.ranks)
    if (rank.pid != 0) workers.push_back(rank.pid);
  const auto work = [this, serial, &io = io_, answer = request.answer, read = read_, workers = std::move(workers)] {
    FilesByWorker files = read(workers);
    const std::lock_guard lock(answer->mutex);
    answer->in_work = false;
    if (!answer->awaited) return std::string();
    answer->files = std::move(files);
    asio::post(io, [this, serial, answer] {
      if (answer->is_awaited()) finish(serial);
    });
    return std::string();
  };
  // That these files do not answer is not said: ddprun writes nothing there.
  if (!thread_) thread_.emplace([](const std::string&) {}, FileThread::Options{.last_write_limit = Duration::zero()});
  if (thread_->call("the workers' output", work)) return true;
  last_answer_.reset();
  return false;
}

void LastOutput::finish(int serial) {
  auto request = requests_.extract(serial);
  if (request.empty()) return;  // its timer expired as the files were read
  rendezvous::NodeReport& report = request.mapped().report;
  const FilesByWorker files = request.mapped().answer->take();
  report.last_lines = last_lines(output_of(report, files), Clock::now() - started_);
  request.mapped().take(std::move(report));
}

std::vector<WorkerOutput> LastOutput::output_of(const rendezvous::NodeReport& report,
                                                const FilesByWorker& files) const {
  std::vector<WorkerOutput> out;
  for (const rendezvous::RankView& rank : report.ranks) {
    auto passed = rank.pid != 0 ? passed_(report.round, rank) : std::nullopt;
    if (!passed) continue;
    WorkerOutput& worker = out.emplace_back(WorkerOutput{rank.rank, std::move(*passed)});
    const auto found = files.find(rank.pid);
    if (found == files.end()) continue;
    for (const FileOutput& one : found->second)
      worker.ends.push_back({one.is_stdout, age_of(one.end), one.end.bytes, one.end.file});
  }
  return out;
}

}  // namespace ddprun::agent

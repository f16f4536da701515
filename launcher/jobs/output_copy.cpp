#include "launcher/jobs/output_copy.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "rendezvous/base/error.h"
#include "rendezvous/base/thread.h"

namespace ddprun::launcher {
namespace {

constexpr std::size_t kLineMax = std::size_t{64} << 10;  // a longer line is written in parts

// Returns what could not be written; see errno.
std::string_view write_all(int to, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(to, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) break;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return bytes;
}

// Two streams share the log: only whole lines, one write each.
void write_lines(JobLog& log, std::string& held, std::string_view bytes) {
  held += bytes;
  const std::size_t end = held.rfind('\n');
  if (end == std::string::npos && held.size() < kLineMax) return;
  const std::size_t size = end == std::string::npos ? held.size() : end + 1;
  log.write(std::string_view(held).substr(0, size));
  held.erase(0, size);
}

void copy(const Fd& from, int console, JobLog& log) {
  std::array<char, 16'384> piece;
  std::string held;
  while (true) {
    const ssize_t size = ::read(from.get(), piece.data(), piece.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) break;
    const std::string_view bytes(piece.data(), static_cast<std::size_t>(size));
    write_lines(log, held, bytes);
    write_all(console, bytes);
  }
  log.write(held);
}

}  // namespace

JobLog::JobLog(const std::filesystem::path& file, std::function<void(const std::string&)> say)
    : path_(file), say_(std::move(say)), file_(::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)) {
  if (!file_) throw Error("cannot write " + file.string(), std::strerror(errno));
}

void JobLog::write(std::string_view bytes) {
  if (bytes.empty()) return;
  const std::lock_guard lock(mutex_);
  const std::size_t left = write_all(file_.get(), bytes).size();
  const std::string why = left > 0 ? std::strerror(errno) : "";
  const std::string sentence =
      problem_.on(why, "output is lost in the job's log " + path_.string() + ", and the job goes on",
                  "the job's log " + path_.string() + " is written again, without " + std::to_string(lost_) + " bytes");
  lost_ = left > 0 ? lost_ + left : 0;
  if (!sentence.empty()) say_(sentence);
}

OutputCopy::OutputCopy(Fd from, int console, std::shared_ptr<JobLog> log) {
  std::promise<void> done;
  done_ = done.get_future();
  const std::string refused =
      start_detached([from = std::move(from), console, log = std::move(log), done = std::move(done)]() mutable {
        copy(from, console, *log);
        done.set_value();
      });
  if (!refused.empty()) throw Error("cannot keep the job's output", refused);
}

void OutputCopy::await_end(Duration limit) { done_.wait_for(limit); }

}  // namespace ddprun::launcher

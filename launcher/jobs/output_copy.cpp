#include "launcher/jobs/output_copy.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <string_view>
#include <utility>

#include "rendezvous/base/error.h"
#include "rendezvous/base/thread.h"

namespace ddprun::launcher {
namespace {

constexpr std::size_t kLineMax = std::size_t{64} << 10;  // a longer line is written in parts

void write_all(int to, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(to, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

// Two streams share the log: only whole lines, one write each.
void write_lines(int log, std::string& held, std::string_view bytes) {
  held += bytes;
  const std::size_t end = held.rfind('\n');
  if (end == std::string::npos && held.size() < kLineMax) return;
  const std::size_t size = end == std::string::npos ? held.size() : end + 1;
  write_all(log, std::string_view(held).substr(0, size));
  held.erase(0, size);
}

void copy(const Fd& from, int console, const Fd& log) {
  std::array<char, 16'384> piece;
  std::string held;
  while (true) {
    const ssize_t size = ::read(from.get(), piece.data(), piece.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) break;
    const std::string_view bytes(piece.data(), static_cast<std::size_t>(size));
    write_lines(log.get(), held, bytes);
    write_all(console, bytes);
  }
  write_all(log.get(), held);
}

}  // namespace

OutputCopy::OutputCopy(Fd from, int console, std::shared_ptr<const Fd> log) {
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

#include "launcher/jobs/event_tail.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "rendezvous/base/fd.h"
#include "rendezvous/base/json_text.h"

namespace ddprun::launcher {

EventTail::EventTail(std::filesystem::path file) : file_(std::move(file)) {
  std::error_code none;
  if (const auto size = std::filesystem::file_size(file_, none); !none) read_ = size;
}

bool EventTail::read(const std::function<void(const nlohmann::json&)>& take) {
  const Fd file(::open(file_.c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 16'384> piece;
  bool any = false;
  while (file) {
    const ssize_t size = pread(file.get(), piece.data(), piece.size(), static_cast<off_t>(read_));
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) break;
    read_ += static_cast<std::uint64_t>(size);
    held_.append(piece.data(), static_cast<std::size_t>(size));
    for (std::size_t end; (end = held_.find('\n')) != std::string::npos; held_.erase(0, end + 1)) {
      const auto event = parse_json(held_.substr(0, end));
      if (event.is_discarded()) continue;
      take(event);
      any = true;
    }
  }
  return any;
}

}  // namespace ddprun::launcher

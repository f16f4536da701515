#include "agent/hang/record_reader.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include <asio/post.hpp>

#include "agent/hang/flight_record.h"
#include "rendezvous/base/fd.h"
#include "rendezvous/base/thread.h"

namespace ddprun::agent {
namespace {

// PyTorch 2.11 knows only the second name. Neither takes stacks, which needs Python's lock.
constexpr const char* kHandlers[] = {"fr_trace_json", "dump_nccl_trace_json"};
constexpr std::size_t kAnswerMax = 32 << 20;
constexpr off_t kGroupsFileMax = 4 << 20;
constexpr std::chrono::milliseconds kEachLimit{500};  // one that is stopped must not keep us from the others

bool is_ready(int fd, short events, TimePoint deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  pollfd one{fd, events, 0};
  return left > 0 && poll(&one, 1, static_cast<int>(left)) == 1;
}

// A socket's path has 107 bytes at most; a folder's may have more.
Fd connect_to(const std::string& path, TimePoint deadline) {
  const std::size_t slash = path.rfind('/');
  const Fd folder(open(path.substr(0, slash).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const int bytes = std::snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/%s.sock", folder.get(),
                                  path.c_str() + slash + 1);
  if (!folder || !socket || bytes >= static_cast<int>(sizeof address.sun_path)) return {};
  while (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    if (errno == EINTR) continue;
    if (errno != EAGAIN || Clock::now() >= deadline) return {};  // EAGAIN: too many wait there
    poll(nullptr, 0, 1);
  }
  return socket;
}

bool send_all(int fd, std::string_view bytes, TimePoint deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0)
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    else if (errno != EAGAIN || !is_ready(fd, POLLOUT, deadline))
      return false;
  }
  return true;
}

std::optional<std::string> receive_all(int fd, TimePoint deadline) {
  std::string out;
  char chunk[1 << 16];
  while (out.size() <= kAnswerMax) {
    const ssize_t count = recv(fd, chunk, sizeof chunk, 0);
    if (count == 0) return out;
    if (count > 0)
      out.append(chunk, static_cast<std::size_t>(count));
    else if (errno != EAGAIN || !is_ready(fd, POLLIN, deadline))
      return {};
  }
  return {};
}

std::optional<std::string> answer_of(const std::string& path, const std::string& handler, TimePoint deadline) {
  const Fd socket = connect_to(path, deadline);
  if (!socket) return {};
  const std::string request =
      "POST /handler/" + handler + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
  if (!send_all(socket.get(), request, deadline)) return {};
  const auto answer = receive_all(socket.get(), deadline);
  const std::size_t head = answer ? answer->find("\r\n\r\n") : std::string::npos;
  if (head == std::string::npos || !answer->starts_with("HTTP/1.1 200")) return {};
  return answer->substr(head + 4);
}

// A worker may put anything there, as a pipe.
std::string content_of(const std::string& path) {
  const Fd file(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC));
  struct stat status {};
  if (!file || fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_size > kGroupsFileMax)
    return {};
  std::string content(static_cast<std::size_t>(status.st_size), '\0');
  const ssize_t count = read(file.get(), content.data(), content.size());
  content.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  return content;
}

std::optional<rendezvous::CollectiveRecord> record_at(const std::string& path, TimePoint deadline) {
  const std::string groups = content_of(path + ".groups");
  for (const char* handler : kHandlers)
    if (const auto answer = answer_of(path, handler, deadline)) return flight_record(*answer, groups);
  return {};
}

}  // namespace

struct RecordReader::Owner {
  std::mutex mutex;
  RecordReader* reader;  // null: it is gone
  Records records = {};
};

RecordReader::~RecordReader() {
  if (!owner_) return;
  const std::lock_guard lock(owner_->mutex);
  owner_->reader = nullptr;
}

bool RecordReader::read(std::map<int, std::string> paths, Duration limit, OnRead on_read) {
  owner_ = std::make_shared<Owner>();
  owner_->reader = this;
  const std::string refused = start_detached([owner = owner_, paths = std::move(paths), limit] {
    const TimePoint deadline = Clock::now() + limit;
    for (const auto& [local_rank, path] : paths)
      if (auto record = record_at(path, std::min(deadline, Clock::now() + kEachLimit)))
        owner->records.emplace(local_rank, std::move(*record));
    const std::lock_guard lock(owner->mutex);
    if (!owner->reader) return;
    asio::post(owner->reader->io_, [owner] {
      if (!owner->reader) return;
      const OnRead done = std::exchange(owner->reader->on_read_, {});
      done(std::move(owner->records));
    });
  });
  if (!refused.empty()) return false;
  on_read_ = std::move(on_read);
  return true;
}

bool has_record(const std::string& path) {
  struct stat status {};
  return !path.empty() && stat((path + ".sock").c_str(), &status) == 0 && S_ISSOCK(status.st_mode);
}

bool has_groups(const std::string& path) { return !path.empty() && access((path + ".groups").c_str(), F_OK) == 0; }

}  // namespace ddprun::agent

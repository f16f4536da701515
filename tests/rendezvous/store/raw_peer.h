// A bare socket that says to a store what no decent client would.
//
// Blocking, each step with a limit of 10 s; what fails throws std::runtime_error.
#pragma once
#include <fcntl.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rendezvous/store/protocol.h"

namespace ddprun::test {

using rendezvous::Op, rendezvous::Request;
inline Request set(std::string key, std::string value) { return {Op::set, {std::move(key)}, {std::move(value)}}; }
inline Request get(std::string key) { return {Op::get, {std::move(key)}}; }
inline Request wait_for(std::string key) { return {Op::wait, {std::move(key)}}; }
inline Request add(std::string key, std::int64_t delta) { return {Op::add, {std::move(key)}, {}, delta}; }

class RawPeer {
 public:
  // `source`: our own address, where it matters.
  explicit RawPeer(std::uint16_t port, const std::string& address = "127.0.0.1", const char* source = nullptr);
  RawPeer(RawPeer&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  RawPeer& operator=(RawPeer&&) = delete;
  ~RawPeer();

  RawPeer& greet();  // Op::validate, and a PING to know that it was taken
  RawPeer& send(std::string_view bytes);
  RawPeer& send(const rendezvous::Request& request) { return send(encode(request)); }
  // Sends over and over until the socket takes no more for `quiet`; how many bytes it took.
  std::size_t send_until_stuck(std::string_view bytes, std::chrono::milliseconds quiet);
  std::string receive(std::size_t size);
  std::string receive_value();
  std::int64_t receive_number();
  // Whether it is closed, by EOF or reset, before `limit`; bytes that come first are dropped.
  bool closed_within(std::chrono::milliseconds limit);
  // By the other side, though bytes of it were not read: a write fails in the end.
  bool refuses_writes_within(std::chrono::milliseconds limit);
  bool silent_for(std::chrono::milliseconds quiet);
  void receive_buffer(int bytes);
  void end_input();  // FIN; replies can still be received
  void reset();      // RST

 private:
  int fd_ = -1;
};

// What a hook is told, from another thread.
class Told {
 public:
  std::function<void(const std::string&)> hook() {
    return [this](const std::string& line) {
      const std::lock_guard lock(mutex_);
      lines_.push_back(line);
      added_.notify_all();
    };
  }
  std::vector<std::string> all() {
    const std::lock_guard lock(mutex_);
    return lines_;
  }
  bool something_within(std::chrono::milliseconds limit) {
    std::unique_lock lock(mutex_);
    return added_.wait_for(lock, limit, [this] { return !lines_.empty(); });
  }

 private:
  std::mutex mutex_;
  std::condition_variable added_;
  std::vector<std::string> lines_;
};

// Whether a decent client is served, promptly.
inline bool serves(std::uint16_t port, std::chrono::seconds within) try {
  const auto start = std::chrono::steady_clock::now();
  RawPeer(port).greet().send(add("served", 1)).receive_number();
  return std::chrono::steady_clock::now() - start < within;
} catch (const std::exception&) {
  return false;
}

// Of this process.
inline std::set<int> open_fds() {
  std::set<int> fds;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    fds.insert(std::stoi(entry.path().filename()));
  std::erase_if(fds, [](int fd) { return fcntl(fd, F_GETFD) < 0; });  // the listing's own
  return fds;
}
inline std::chrono::nanoseconds process_cpu_time() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

}  // namespace ddprun::test

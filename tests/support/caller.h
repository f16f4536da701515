// A thread that makes one blocking call; a test can see it sleep: its request was sent, and no answer has come.
//
// Linux marks a thread as running as soon as the awaited data arrives, before the sender continues.
#pragma once
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>

namespace ddprun::test {

// A thread's state, 'R', 'S', 'T', ..., see proc_pid_stat(5).
inline char state_of_thread(const std::filesystem::path& task) {
  std::ostringstream stat;
  stat << std::ifstream(task / "stat").rdbuf();
  const std::string line = stat.str();
  const std::size_t name_end = line.rfind(") ");
  return name_end == line.npos ? '?' : line[name_end + 2];
}

class Caller {
 public:
  explicit Caller(std::function<void()> call)
      : thread_([this, call = std::move(call)] {
          thread_id_ = gettid();
          try {
            call();
          } catch (...) {
            thrown_ = std::current_exception();
          }
          ended_ = true;
        }) {}
  ~Caller() {
    if (thread_.joinable()) thread_.join();
  }
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

  bool ended() const { return ended_; }
  // Waits for its end, and rethrows the call's exception.
  void finish() {
    thread_.join();
    if (thrown_) std::rethrow_exception(thrown_);
  }
  // Waits until it sleeps. False: the call has ended.
  bool sleeps() const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!ended_) {
      if (const pid_t id = thread_id_)
        if (state_of_thread("/proc/self/task/" + std::to_string(id)) == 'S' && !ended_) return true;
      if (std::chrono::steady_clock::now() > deadline) throw std::runtime_error("a call neither sleeps nor ends");
      std::this_thread::yield();
    }
    return false;
  }

 private:
  std::atomic<pid_t> thread_id_ = 0;
  std::atomic<bool> ended_ = false;
  std::exception_ptr thrown_;
  std::thread thread_;
};

}  // namespace ddprun::test

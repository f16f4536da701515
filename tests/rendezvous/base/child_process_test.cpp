#include "rendezvous/base/child_process.h"

#include <poll.h>
#include <sys/ptrace.h>
#include <unistd.h>

#include <thread>

#include "tests/support/test.h"

namespace {

// Ends when told, with code 7.
class Told {
 public:
  Told() {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    pid_ = fork();
    if (pid_ == 0) {
      close(ends[1]);
      char byte = 0;
      [[maybe_unused]] const auto count = read(ends[0], &byte, 1);
      _exit(7);
    }
    close(ends[0]);
    end_ = Fd(ends[1]);
  }
  pid_t pid() const { return pid_; }
  void tell() { end_.reset(); }
  int code() const {
    int status = 0;
    return waitpid(pid_, &status, 0) == pid_ && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  pid_t pid_;
  Fd end_;
};

bool is_readable(const Fd& fd, int limit_ms) {
  pollfd now{fd.get(), POLLIN, 0};
  return poll(&now, 1, limit_ms) == 1;
}

constexpr int kLimitMs = 10'000;

}  // namespace

TEST_CASE("a child's descriptor is readable from its end on, and the child can be waited for", "[child_process]") {
  const bool by_thread = GENERATE(false, true);
  Told child;
  const Fd fd = by_thread ? descriptor_by_thread(child.pid()) : child_descriptor(child.pid());
  REQUIRE(fd);
  CHECK_FALSE(is_readable(fd, 0));
  child.tell();
  CHECK(is_readable(fd, kLimitMs));
  CHECK(is_readable(fd, 0));
  CHECK(child.code() == 7);
  CHECK(is_readable(fd, 0));
}

TEST_CASE("a child that was reaped has ended, too", "[child_process]") {
  Told child;
  child.tell();
  CHECK(child.code() == 7);
  CHECK(is_readable(descriptor_by_thread(child.pid()), kLimitMs));
}

TEST_CASE("a descriptor may be closed before its child's end", "[child_process]") {
  Told child;
  descriptor_by_thread(child.pid()).reset();
  child.tell();
  CHECK(child.code() == 7);
}

TEST_CASE("a child that a thread of ours has stopped by ptrace has not ended", "[child_process]") {
  Told child;
  const Fd fd = descriptor_by_thread(child.pid());
  bool traced = false;
  std::thread([&] {
    traced = ptrace(PTRACE_SEIZE, child.pid(), nullptr, nullptr) == 0 &&
             ptrace(PTRACE_INTERRUPT, child.pid(), nullptr, nullptr) == 0;
    siginfo_t stop{};
    traced = traced && waitid(P_PID, static_cast<id_t>(child.pid()), &stop, WEXITED | WSTOPPED | WNOWAIT) == 0;
    CHECK_FALSE(is_readable(fd, 50));  // while every wait tells of the stop
    if (traced) ptrace(PTRACE_DETACH, child.pid(), nullptr, nullptr);
  }).join();
  CHECK(traced);
  child.tell();
  CHECK(is_readable(fd, kLimitMs));
  CHECK(child.code() == 7);
}

TEST_CASE("a signal reaches a child, and nobody once it is reaped", "[child_process]") {
  Told child;
  const Fd fd = child_descriptor(child.pid());
  for (const int number : {fd.get(), -1}) CHECK(signal_child({child.pid(), number}, 0));
  child.tell();
  CHECK(child.code() == 7);
  for (const int number : {fd.get(), -1}) CHECK_FALSE(signal_child({child.pid(), number}, 0));
  siginfo_t info{};
  CHECK(wait_child({child.pid(), fd.get()}, info, WEXITED | WNOHANG) == -1);
}

// A process whose stacks are taken: it prints "ready" and hangs in the function that its first argument names.
//   stack_worker sleep | undumpable | deadlock | threads | leave | signals FILE | spin FILE | open PATH | trace PID
// FILE: a page in which it counts.
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

namespace {

using Counter = std::atomic<unsigned long>;

Counter* counter;

Counter* counter_in(const char* file) {
  const int fd = open(file, O_RDWR | O_CREAT, 0644);
  if (fd < 0 || ftruncate(fd, sizeof(Counter)) != 0) std::abort();
  return static_cast<Counter*>(mmap(nullptr, sizeof(Counter), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
}

void ready() {
  std::puts("ready");
  std::fflush(stdout);
}

}  // namespace

// Each a function of its own, with a frame: no call in them is the last one.
namespace work {

[[gnu::noinline]] void sleep_for_ever() {
  ready();
  for (;;) {
    pause();
    asm volatile("");
  }
}

[[gnu::noinline]] void count_for_ever() {
  ready();
  for (;;) counter->fetch_add(1);
}

[[gnu::noinline]] void lock_twice(std::mutex& mutex) {
  mutex.lock();
  ready();
  mutex.lock();
  asm volatile("");
}

struct Model {
  std::mutex mutex;
  [[gnu::noinline]] void forward(const std::vector<int>& batch) {
    lock_twice(mutex);
    std::printf("%zu\n", batch.size());
  }
};

[[gnu::noinline]] void wait_in_thread() {
  pause();
  asm volatile("");
}

[[gnu::noinline]] void open_file(const char* path) {
  ready();
  std::printf("opened %d\n", open(path, O_RDONLY));
  std::fflush(stdout);
}

}  // namespace work

namespace {

void run_threads() {
  for (int i = 0; i < 3; ++i) {
    std::thread thread(work::wait_in_thread);
    pthread_setname_np(thread.native_handle(), ("loader " + std::to_string(i)).c_str());
    thread.detach();
  }
  work::sleep_for_ever();
}

void leave_a_thread() {
  std::thread(work::wait_in_thread).detach();
  ready();
  pthread_exit(nullptr);
}

void count_signals() {
  struct sigaction action {};
  action.sa_handler = [](int) { counter->fetch_add(1); };
  sigaction(SIGRTMIN, &action, nullptr);
  work::sleep_for_ever();
}

void trace(pid_t pid) {
  if (ptrace(PTRACE_SEIZE, pid, nullptr, nullptr) == 0) work::sleep_for_ever();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view what = argc > 1 ? argv[1] : "";
  const char* const argument = argc > 2 ? argv[2] : "";
  if (what == "spin" || what == "signals") counter = counter_in(argument);
  if (what == "undumpable") prctl(PR_SET_DUMPABLE, 0);
  if (what == "sleep" || what == "undumpable") work::sleep_for_ever();
  if (what == "spin") work::count_for_ever();
  if (what == "deadlock") work::Model{}.forward({1, 2, 3});
  if (what == "threads") run_threads();
  if (what == "leave") leave_a_thread();
  if (what == "signals") count_signals();
  if (what == "open") work::open_file(argument);
  if (what == "trace") trace(std::atoi(argument));
  return 2;
}

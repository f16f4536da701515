// Collectives for workers of tests without LibTorch: counters in the file "shared" of the working folder, which all
// ranks map.
#pragma once
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "rendezvous/channel/worker_channel.h"

namespace ddprun::test {

inline int environment_number(const char* name) { return std::atoi(std::getenv(name)); }

// By its name its callers are known to wait for others, even if they do not report it.
extern "C" __attribute__((noinline)) inline void MPI_Allreduce(std::atomic<int>& arrived) {
  ++arrived;
  while (arrived.load() < environment_number("WORLD_SIZE")) std::this_thread::sleep_for(std::chrono::microseconds(200));
}

class FileCollectives {
 public:
  // `reports`: waits to the worker channel.
  explicit FileCollectives(bool reports = true) : reports_(reports) {
    const int fd = open("shared", O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0 || ftruncate(fd, sizeof(Shared)) != 0) std::abort();
    void* const at = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) std::abort();
    close(fd);
    shared_ = static_cast<Shared*>(at);
  }
  // Waits until all ranks have called it as often in this round.
  __attribute__((noinline)) void wait(const char* name) {
    const enum ddprun_beat before = reports_ ? ddprun_channel_wait(name) : DDPRUN_BEAT_COMPUTE;
    const auto at = static_cast<std::size_t>(environment_number("DDPRUN_ROUND") * kOfRound + calls_++) % kCounters;
    MPI_Allreduce(shared_->arrived[at]);
    ddprun_channel_beat(before);
  }
  // This rank leaves out one call.
  void skip() { ++calls_; }
  // One rank calls it: after the next wait() ends() is true, on all ranks alike.
  void end() { shared_->last.store(calls_ + 1); }
  bool ends() const { return shared_->last.load() != 0 && calls_ >= shared_->last.load(); }

 private:
  static constexpr int kCounters = 1 << 18, kOfRound = 1 << 15;
  struct Shared {
    std::atomic<int> last;  // calls before the end; 0: there is none yet
    std::atomic<int> arrived[kCounters];
  };
  const bool reports_;
  Shared* shared_;
  int calls_ = 0;
};

}  // namespace ddprun::test

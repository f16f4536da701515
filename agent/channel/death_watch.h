// Detects early that a worker is dying: some 0.1 ms after the signal, regardless of its memory size. Also detects that
// it reports a notice of preemption.
//
// A pidfd becomes readable only when the kernel has freed the worker's memory. Before that the kernel marks the lock in
// a worker's channel (rendezvous/channel/worker_channel.h), but only as a hint: a worker that calls exec() or whose
// main thread ends releases it, too. So dying_status() confirms the hint, and the pidfd still decides. Workers that do
// not use their channel are not detected here.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "agent/channel/channel_page.h"
#include "rendezvous/coordination/round/round.h"

namespace ddprun::agent {

// Waits in threads of its own, as the kernel offers no descriptor for it: one thread for up to 63 workers; one for each
// worker on kernels before 5.16, where a notice takes up to 100 ms. Call everything from one thread.
class DeathWatch {
 public:
  using Token = std::uint64_t;  // the caller's name for a worker; not used twice
  enum class Kernel { as_found, without_waitv };

  // `on_hint` is called from a thread of ours and should only pass the token on to the loop. It is not called for a
  // forgotten token.
  explicit DeathWatch(std::function<void(Token)> on_hint, Kernel kernel = Kernel::as_found);
  ~DeathWatch();
  // If no thread can be created, early detection is disabled: the pidfd reports the end.
  void watch(Token token, const ChannelPage& page) { watch({{token, &page}}); }
  // All at once: whenever a worker is added, a thread wakes up and begins to wait for all of its workers again.
  void watch(const std::vector<std::pair<Token, const ChannelPage*>>& workers);
  void forget(Token token);

 private:
  class Watcher;
  Watcher* one_with_room();  // null: no thread can be created
  std::function<void(Token)> on_hint_;
  std::size_t workers_per_thread_;
  std::vector<std::unique_ptr<Watcher>> watchers_;
};

// The failure with which this process is already ending, though it cannot be reaped yet. Empty: it lives, ends with
// success, only its main thread has ended, or the kernel does not show it; then its pidfd reports the end.
std::optional<rendezvous::ExitStatus> dying_status(pid_t pid);

}  // namespace ddprun::agent

// Early news that a worker is dying: some 0.1 ms after the signal, whatever the worker's size.
//
// A pidfd speaks only when the kernel has freed the worker's memory. The lock in a worker's channel
// (rendezvous/channel/worker_channel.h) is marked by the kernel before that, but only as a hint: a worker that calls
// exec() or whose main thread ends lets go of it, too. So the news is confirmed by dying_status(), and the pidfd still
// decides. Workers that do not use their channel are never heard of here.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "agent/channel/channel_page.h"
#include "rendezvous/coordination/round.h"

namespace ddprun::agent {

// Waits in threads of its own, as the kernel offers no descriptor for it: one for up to 127 workers; one for each on
// kernels before 5.16. All calls from one thread.
class DeathWatch {
 public:
  using Token = std::uint64_t;  // the caller's name for a worker; not used twice
  enum class Kernel { as_found, without_waitv };

  // `on_news` is called from a thread of ours and should only pass the token on to the loop. It is not called for a
  // token that was forgotten.
  explicit DeathWatch(std::function<void(Token)> on_news, Kernel kernel = Kernel::as_found);
  ~DeathWatch();
  // Where no thread can be had, the news stays out: pidfd will tell.
  void watch(Token token, const ChannelPage& page);
  void forget(Token token);

 private:
  class Watcher;
  std::function<void(Token)> on_news_;
  std::size_t workers_per_thread_;
  std::vector<std::unique_ptr<Watcher>> watchers_;
};

// The failure with which this process is already ending, though it cannot be reaped yet. Nothing: it lives, ends well,
// only its main thread has ended, or the kernel does not tell us; then its pidfd will say.
std::optional<rendezvous::ExitStatus> dying_status(pid_t pid);

}  // namespace ddprun::agent

// A client of the store, ours or PyTorch's: every call has a deadline.
//
// Keys get the leading '/' that PyTorch's clients give them, so both see the same keys. A call without a limit of its
// own takes Options::timeout; kNoLimit waits for ever. A time-out throws TimeoutError, any other failure Error; both
// name the store, the keys and the time. A wait that times out is cancelled, for which an unresponsive store gets 2 s
// more. After a lost connection the next call reconnects. set, append, multi_set and queue_push have no reply on the
// wire: success means sent.
//
// Any thread may call; calls take turns. A thread that waits long should have its own client.
#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/base/error.h"
#include "rendezvous/base/time.h"
#include "rendezvous/base/timed_mutex.h"
#include "rendezvous/store/protocol.h"
#include "rendezvous/store/stream.h"

namespace ddprun::rendezvous {

class TimeoutError : public Error {
 public:
  using Error::Error;
};

class Client {
 public:
  using Limit = std::optional<Duration>;
  using Keys = std::vector<std::string>;
  static constexpr Duration kNoLimit = Duration::max();

  struct Options {
    std::string host;
    std::uint16_t port = 0;
    Duration timeout = std::chrono::seconds(300);  // PyTorch's default
    bool count_me = false;                         // in "init/", where PyTorch's rank 0 counts its clients
  };
  // Connects, with retries and a back-off until the time-out: the store may start later than we do.
  explicit Client(Options options);

  void set(std::string_view key, std::string_view value, Limit limit = {});
  // Waits for the key; waits again if another client deletes it at that moment.
  std::string get(std::string_view key, Limit limit = {});
  std::int64_t add(std::string_view key, std::int64_t delta, Limit limit = {});
  void append(std::string_view key, std::string_view value, Limit limit = {});
  // Returns the value now in force. If there is no key and `expected` is not empty: `expected`, and nothing is stored.
  std::string compare_set(std::string_view key, std::string_view expected, std::string_view desired, Limit limit = {});
  bool delete_key(std::string_view key, Limit limit = {});
  void multi_set(const Keys& keys, const std::vector<std::string>& values, Limit limit = {});
  std::vector<std::string> multi_get(const Keys& keys, Limit limit = {});  // waits for all

  bool check(const Keys& keys, Limit limit = {});                                 // a key, or a queue that is not empty
  void wait(const Keys& keys, Limit limit = {});                                  // a limit of zero: no waiting
  void barrier(std::string_view key, std::int64_t world_size, Limit limit = {});  // not in PyTorch 2.11's server
  std::int64_t num_keys(Limit limit = {});                                        // of the whole store, "init/" too
  Keys list_keys(Limit limit = {});

  void queue_push(std::string_view key, std::string_view value, Limit limit = {});
  std::string queue_pop(std::string_view key, Limit limit = {});                     // waits for one
  std::optional<std::string> queue_try_pop(std::string_view key, Limit limit = {});  // does not wait
  std::int64_t queue_len(std::string_view key, Limit limit = {});
  void ping(Limit limit = {});

  const Options& options() const { return options_; }

 private:
  template <class Exchange>
  auto call(const char* what, const Keys& keys, Limit limit, Exchange exchange);
  void call_without_reply(const char* what, const Request& request, Limit limit);
  std::int64_t call_for_number(const char* what, const Request& request, Limit limit);
  void connect(TimePoint deadline);
  void connect_once(TimePoint deadline);
  void read_pong(TimePoint deadline);
  void send(const Request& request, TimePoint deadline);
  void await_flag(const Request& request, TimePoint deadline);
  bool cancel_wait();
  bool keys_exist(const Keys& named, TimePoint deadline);
  std::vector<std::string> wait_and_read(const Request& wait, Op op, TimePoint deadline);
  std::string read_value(TimePoint deadline);
  std::optional<std::string> pop_value(const Request& pop, TimePoint deadline);
  std::string describe(const char* what, const Keys& keys) const;

  const Options options_;
  TimedMutex mutex_;
  std::optional<Stream> stream_;
  bool counted_ = false;
};

}  // namespace ddprun::rendezvous

// Pushes to one receiver, over HTTP, at the times of its schedule (push_schedule.h).
//
// A failure stops nothing; the first one is said, in a sentence. For the thread of its io_context; calls no hook after
// its destruction.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include "agent/http/http_client.h"
#include "agent/push/push_schedule.h"

namespace ddprun::agent {

class Pusher {
 public:
  // Call it once, now or later. Empty: there is nothing to push now.
  using Ready = std::function<void(std::optional<HttpPost>)>;
  struct Hooks {
    std::function<void(const Ready&)> collect;         // may throw: then there is nothing to push, and that is said
    std::function<void(const std::string& line)> say;  // "cannot push metrics to http://...: Connection refused"
  };
  struct Options {
    std::string what = {};  // "metrics"
    std::string to = {};    // that is shown: a URL without secrets
    Duration interval = {}, within = {};
  };
  Pusher(asio::io_context& io, Options options, Hooks hooks);
  Pusher(const Pusher&) = delete;
  Pusher& operator=(const Pusher&) = delete;

  // One more push, unless the receiver is known to fail. `done` is called within the limit, or now.
  void finish(Duration within, std::function<void()> done);

 private:
  void arm();
  void push(Duration within);
  void send(std::optional<HttpPost> post, Duration within);
  void take(const PostResult& result);
  void fail(const std::string& why, std::optional<Duration> retry_after);
  void ended();

  const Options options_;
  const Hooks hooks_;
  PushSchedule schedule_;
  asio::steady_timer timer_, last_limit_;
  HttpClient client_;
  bool pushing_ = false, said_ = false;
  std::function<void()> finished_;
  std::shared_ptr<const int> alive_ = std::make_shared<int>();  // expired for what comes after our destruction
};

}  // namespace ddprun::agent

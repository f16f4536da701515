#include "agent/push/pusher.h"

#include <exception>
#include <utility>

#include <asio/post.hpp>

namespace ddprun::agent {

Pusher::Pusher(asio::io_context& io, Options options, Hooks hooks)
    : options_(std::move(options)),
      hooks_(std::move(hooks)),
      schedule_(options_.interval, Clock::now()),
      timer_(io),
      last_limit_(io),
      client_(io) {
  arm();
}

void Pusher::arm() {
  timer_.expires_at(schedule_.next());
  timer_.async_wait([this, alive = std::weak_ptr(alive_)](const std::error_code& error) {
    if (!error && !alive.expired()) push(options_.within);
  });
}

void Pusher::push(Duration within) {
  pushing_ = true;
  try {
    hooks_.collect([this, within, alive = std::weak_ptr(alive_)](std::optional<HttpPost> post) {
      if (!alive.expired()) send(std::move(post), within);
    });
  } catch (const std::exception& error) {
    fail(error.what(), {});
  }
}

void Pusher::send(std::optional<HttpPost> post, Duration within) {
  if (!post) {
    schedule_.taken(Clock::now());
    return ended();
  }
  client_.post(std::move(*post), within, [this](const PostResult& result) { take(result); });
}

void Pusher::take(const PostResult& result) {
  if (!result.taken()) return fail(result.status ? status_in_words(result.status) : result.why, result.retry_after);
  schedule_.taken(Clock::now());
  ended();
}

void Pusher::fail(const std::string& why, std::optional<Duration> retry_after) {
  schedule_.failed(Clock::now(), retry_after);
  if (!std::exchange(said_, true))
    hooks_.say("cannot push " + options_.what + " to " + options_.to + ": " + why +
               ". It goes on trying, and says no more of it; the job is not affected");
  ended();
}

void Pusher::ended() {
  pushing_ = false;
  if (finished_) return std::exchange(finished_, {})();
  arm();
}

void Pusher::finish(Duration within, std::function<void()> done) {
  timer_.cancel();
  if (schedule_.is_failing()) return done();
  finished_ = std::move(done);
  last_limit_.expires_after(within);
  last_limit_.async_wait([this, alive = std::weak_ptr(alive_)](const std::error_code& error) {
    if (error || alive.expired() || !finished_) return;
    client_.stop();
    std::exchange(finished_, {})();
  });
  if (pushing_) client_.stop();
  push(within);
}

}  // namespace ddprun::agent

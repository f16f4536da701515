#include "rendezvous/peer/resolver.h"

#include <algorithm>
#include <list>
#include <map>
#include <mutex>
#include <system_error>
#include <utility>

#include <asio/post.hpp>
#include <asio/steady_timer.hpp>

#include "rendezvous/base/thread.h"

namespace ddprun::rendezvous {
namespace {

constexpr std::chrono::seconds kLimitIfKnown{1};           // limit for a look-up if older addresses are known
constexpr std::chrono::seconds kUnusedResultLifetime{60};  // a result for which nobody waited any more

// How an abandoned thread finds the loop, or learns that it is gone.
struct Loop {
  std::mutex mutex;
  asio::io_context* io;
};

std::string seconds(Duration time) {
  return std::to_string(std::chrono::ceil<std::chrono::seconds>(time).count()) + " s";
}

}  // namespace

class Resolver::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(asio::io_context& io, std::function<LookUp(const std::string&)> look_up)
      : io_(io), loop_(std::make_shared<Loop>()), look_up_(std::move(look_up)) {
    loop_->io = &io;
  }

  void end() {
    ended_ = true;
    const std::lock_guard lock(loop_->mutex);
    loop_->io = nullptr;
  }

  void resolve(const std::string& host, Duration limit, Done done);

 private:
  struct Waiter {
    Waiter(asio::io_context& io, Done done) : done(std::move(done)), limit(io) {}
    Done done;
    asio::steady_timer limit;
  };
  struct Name {
    bool under_way = false;
    TimePoint since = {};
    std::unique_ptr<LookUp> unused = {};  // it came at `since`, when nobody waited
    std::vector<Address> addresses = {};
    std::list<std::shared_ptr<Waiter>> waiters = {};
  };

  void post_answer(Done done, LookUp result);
  void begin(const std::string& host);
  void on_result(const std::string& host, const LookUp& result);
  void stop_waiting(const std::string& host, const std::shared_ptr<Waiter>& waiter);

  asio::io_context& io_;
  const std::shared_ptr<Loop> loop_;
  const std::function<LookUp(const std::string&)> look_up_;
  std::map<std::string, Name> names_;
  bool ended_ = false;
};

void Resolver::Impl::resolve(const std::string& host, Duration limit, Done done) {
  if (auto numeric = numeric_addresses(host); !numeric.empty())
    return post_answer(std::move(done), {.addresses = std::move(numeric)});
  Name& name = names_[host];
  if (const auto unused = std::move(name.unused); unused && Clock::now() - name.since < kUnusedResultLifetime)
    return post_answer(std::move(done), *unused);
  const auto waiter = std::make_shared<Waiter>(io_, std::move(done));
  name.waiters.push_back(waiter);
  waiter->limit.expires_after(name.addresses.empty() ? limit : std::min<Duration>(limit, kLimitIfKnown));
  waiter->limit.async_wait([held = weak_from_this(), host, waiter](const std::error_code& error) {
    if (const auto self = held.lock(); self && !error) self->stop_waiting(host, waiter);
  });
  if (!name.under_way) begin(host);
}

void Resolver::Impl::post_answer(Done done, LookUp result) {
  asio::post(io_, [held = weak_from_this(), done = std::move(done), result = std::move(result)] {
    if (const auto self = held.lock()) done(result);
  });
}

void Resolver::Impl::begin(const std::string& host) {
  names_[host].under_way = true;
  names_[host].since = Clock::now();
  const auto deliver = [held = weak_from_this(), loop = loop_, host](const LookUp& result) {
    const std::lock_guard lock(loop->mutex);
    if (!loop->io) return;
    asio::post(*loop->io, [held, host, result] {
      if (const auto self = held.lock()) self->on_result(host, result);
    });
  };
  const std::string refused = start_detached([deliver, look_up = look_up_, host] { deliver(look_up(host)); });
  if (!refused.empty()) deliver({.error = refused});
}

void Resolver::Impl::on_result(const std::string& host, const LookUp& result) {
  Name& name = names_[host];
  name.under_way = false;
  name.since = Clock::now();
  if (result.error.empty()) name.addresses = result.addresses;
  const bool use_old = !result.error.empty() && !result.no_such_host && !name.addresses.empty();
  const LookUp answer = use_old ? LookUp{.addresses = name.addresses} : result;
  auto waiters = std::exchange(name.waiters, {});
  if (waiters.empty()) name.unused = std::make_unique<LookUp>(answer);
  for (const auto& waiter : waiters) {
    waiter->limit.cancel();
    if (!ended_) waiter->done(answer);
  }
}

void Resolver::Impl::stop_waiting(const std::string& host, const std::shared_ptr<Waiter>& waiter) {
  Name& name = names_[host];
  if (std::erase(name.waiters, waiter) == 0) return;  // already answered
  LookUp answer{.addresses = name.addresses};
  if (answer.addresses.empty()) answer.error = "no name server has answered for " + seconds(Clock::now() - name.since);
  waiter->done(answer);
}

Resolver::Resolver(asio::io_context& io, std::function<LookUp(const std::string&)> look_up)
    : impl_(std::make_shared<Impl>(io, std::move(look_up))) {}
Resolver::~Resolver() { impl_->end(); }
void Resolver::resolve(const std::string& host, Duration limit, Done done) {
  impl_->resolve(host, limit, std::move(done));
}

}  // namespace ddprun::rendezvous

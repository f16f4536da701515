#include "agent/store_reach.h"

#include <utility>

#include "agent/waiting_words.h"

namespace ddprun::agent {
namespace {

constexpr std::chrono::seconds kLookUpLimit{1}, kPause{1};

}  // namespace

StoreReach::StoreReach(asio::io_context& io, const std::shared_ptr<rendezvous::Resolver>& names,
                       rendezvous::ControlAddress store, Tell tell)
    : names_(names),
      store_(std::move(store)),
      tell_(std::move(tell)),
      connector_(io, names,
                 {[this](const asio::ip::tcp::socket&) { due_.cancel(); },
                  [this](const rendezvous::Connector::Failure& failure) { failed(failure.why); }}),
      again_(io),
      due_(io) {
  look_up();
  tell_in_time();
}

void StoreReach::look_up() {
  names_->resolve(store_.host, kLookUpLimit,
                  [this, alive = std::weak_ptr<const int>(alive_)](const rendezvous::LookUp& found) {
                    if (alive.expired()) return;
                    if (whose(found) == rendezvous::Whose::ours) return void(due_.cancel());
                    anothers_ = whose(found) == rendezvous::Whose::anothers;
                    connector_.start(store_);
                  });
}

void StoreReach::failed(const std::string& why) {
  why_ = why + (anothers_ ? "; " + store_.host + " is no address of this machine" : "");
  again_.expires_after(kPause);
  again_.async_wait([this, alive = std::weak_ptr<const int>(alive_)](const asio::error_code& error) {
    if (!error && !alive.expired()) look_up();
  });
}

void StoreReach::tell_in_time() {
  due_.expires_at(since_ + next_reminder(Clock::now() - since_));
  due_.async_wait([this, alive = std::weak_ptr<const int>(alive_)](const asio::error_code& error) {
    if (error || alive.expired()) return;
    tell_(why_.empty() ? "nobody has answered so far" : why_);
    tell_in_time();
  });
}

}  // namespace ddprun::agent

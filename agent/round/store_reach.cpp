#include "agent/round/store_reach.h"

#include <utility>

#include "agent/link/waiting_message.h"

namespace ddprun::agent {
namespace {

constexpr std::chrono::seconds kLookUpLimit{1}, kPause{1};

}  // namespace

StoreReach::StoreReach(asio::io_context& io, const std::shared_ptr<rendezvous::Resolver>& names,
                       rendezvous::ControlAddress store, Report report)
    : names_(names),
      store_(std::move(store)),
      report_(std::move(report)),
      connector_(io, names,
                 {[this](const asio::ip::tcp::socket&) { report_timer_.cancel(); },
                  [this](const rendezvous::Connector::Failure& failure) { failed(failure.why); }}),
      retry_timer_(io),
      report_timer_(io) {
  look_up();
  schedule_report();
}

void StoreReach::look_up() {
  names_->resolve(store_.host, kLookUpLimit,
                  [this, alive = std::weak_ptr<const int>(alive_)](const rendezvous::LookUp& found) {
                    if (alive.expired()) return;
                    if (locality_of(found) == rendezvous::Locality::local) return void(report_timer_.cancel());
                    is_remote_ = locality_of(found) == rendezvous::Locality::remote;
                    connector_.start(store_);
                  });
}

void StoreReach::failed(const std::string& why) {
  why_ = why + (is_remote_ ? "; " + store_.host + " is not an address of this machine" : "");
  retry_timer_.expires_after(kPause);
  retry_timer_.async_wait([this, alive = std::weak_ptr<const int>(alive_)](const asio::error_code& error) {
    if (!error && !alive.expired()) look_up();
  });
}

void StoreReach::schedule_report() {
  report_timer_.expires_at(since_ + next_reminder(Clock::now() - since_));
  report_timer_.async_wait([this, alive = std::weak_ptr<const int>(alive_)](const asio::error_code& error) {
    if (error || alive.expired()) return;
    report_(why_.empty() ? "no answer so far" : why_);
    schedule_report();
  });
}

}  // namespace ddprun::agent

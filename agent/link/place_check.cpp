#include "agent/link/place_check.h"

#include <utility>

#include "agent/link/waiting_message.h"

namespace ddprun::agent {
namespace {

constexpr std::chrono::seconds kPause{1};

}  // namespace

PlaceCheck::PlaceCheck(asio::io_context& io, Options options, const rendezvous::PeerTrust& trust,
                       std::function<void(const std::string& why)> report)
    : options_(std::move(options)),
      report_(std::move(report)),
      dialer_(io, options_.names, trust,
              {[this](rendezvous::PeerConnection connection) { connected(connection.peer()); },
               [this](const rendezvous::Dialer::Failure& failure) { failed(failure.why); }}),
      report_timer_(io, kMessageDelay) {
  dialer_.start({options_.place});
  report_timer_.async_wait([this, alive = std::weak_ptr<const int>(alive_)](const asio::error_code& canceled) {
    if (!canceled && !alive.expired()) report_(why_);
  });
}

void PlaceCheck::connected(const rendezvous::NodeIdentity& peer) {
  if (peer.instance != options_.instance) return failed("another agent of the job answers, on " + peer.name);
  report_timer_.cancel();
  dialer_.stop();
}

void PlaceCheck::failed(const std::string& why) {
  why_ = why;
  dialer_.start({options_.place, kPause});
}

}  // namespace ddprun::agent

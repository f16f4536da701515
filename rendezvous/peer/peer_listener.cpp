#include "rendezvous/peer/peer_listener.h"

#include <utility>

namespace ddprun::rendezvous {
namespace {

using asio::ip::address_v6;
using asio::ip::tcp;

address_v6 as_v6(const asio::ip::address& address) {
  return address.is_v6() ? address.to_v6() : asio::ip::make_address_v6(asio::ip::v4_mapped, address.to_v4());
}

// A socket for both families gives IPv4 addresses as ::ffff:10.0.0.7.
std::string text_of(const address_v6& address) {
  return address.is_v4_mapped() ? asio::ip::make_address_v4(asio::ip::v4_mapped, address).to_string()
                                : address.to_string();
}

}  // namespace

PeerListener::PeerListener(asio::io_context& io, const Listening& listening, PeerTrust trust, Hooks hooks)
    : trust_(std::move(trust)),
      hooks_(std::move(hooks)),
      port_(listening.port),
      admission_(trust_.limits),
      filter_(listening.fd, trust_.limits),
      unblock_timer_(io),
      refusals_(trust_.limits),
      acceptor_(io, listening.fd, [this](tcp::socket socket) { admit(std::move(socket)); }) {}

void PeerListener::admit(tcp::socket socket) {
  std::error_code error;
  const tcp::endpoint remote = socket.remote_endpoint(error);
  if (error) return;  // it is gone already
  const address_v6 address = as_v6(remote.address());
  const PeerSource source = source_of(address.to_bytes());
  if (filter_.blocks(source)) {
    filter_.on_turned_away();
    return log_refusal(source, text_of(address), "it has failed too often recently");
  }
  const Admission::PeerId id = ++last_id_;
  if (const auto evicted = admission_.add(id, source))
    finish(*evicted, "too many unauthenticated connections at a time");
  Pending pending{{std::move(socket), PeerRole::server, trust_}, source, text_of(address)};
  PeerConnection& connection = pending_.emplace(id, std::move(pending)).first->second.connection;
  connection.handshake(Clock::now() + trust_.limits.authenticate_within,
                       [this, id](const std::string& refusal) { finish(id, refusal); });
}

void PeerListener::finish(Admission::PeerId id, const std::string& refusal) {
  admission_.remove(id);
  Pending pending = std::move(pending_.extract(id).mapped());
  if (refusal.empty()) {
    filter_.on_success(pending.source);
    return hooks_.on_peer(std::move(pending.connection));
  }
  const TimePoint now = Clock::now();
  const bool silent = pending.connection.closed_silently();
  silent ? filter_.on_silent_close(pending.source, now)
         : filter_.on_failure(pending.source, now, pending.connection.handshake_cost());
  schedule_unblock();
  if (!silent) log_refusal(pending.source, pending.address, refusal);
}

void PeerListener::schedule_unblock() {
  if (filter_.next_deadline() == unblock_timer_.expiry() || filter_.next_deadline() == TimePoint::max()) return;
  unblock_timer_.expires_at(filter_.next_deadline());
  unblock_timer_.async_wait([this, alive = std::weak_ptr(alive_)](const std::error_code& error) {
    if (error || alive.expired()) return;
    filter_.unblock_expired(Clock::now());
    schedule_unblock();
  });
}

void PeerListener::log_refusal(const PeerSource& source, const std::string& address, const std::string& refusal) {
  const auto line = refusals_.refused(source, address, refusal, Clock::now());
  if (line) hooks_.on_refusal(*line);
}

}  // namespace ddprun::rendezvous

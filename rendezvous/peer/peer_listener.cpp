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
      gate_(listening.fd, trust_.limits),
      gate_opens_(io),
      refusals_(trust_.limits),
      acceptor_(io, listening.fd, [this](tcp::socket socket) { admit(std::move(socket)); }) {}

void PeerListener::admit(tcp::socket socket) {
  std::error_code error;
  const tcp::endpoint remote = socket.remote_endpoint(error);
  if (error) return;  // it is gone already
  const address_v6 address = as_v6(remote.address());
  const PeerSource source = source_of(address.to_bytes());
  if (gate_.turns_away(source)) return tell(source, text_of(address), "it failed too often of late");
  const Admission::PeerId id = ++last_id_;
  if (const auto dropped = admission_.arrived(id, source))
    settle(*dropped, "too many connections at a time that prove nothing");
  Pending pending{{std::move(socket), PeerRole::server, trust_}, source, text_of(address)};
  PeerConnection& connection = pending_.emplace(id, std::move(pending)).first->second.connection;
  connection.handshake(Clock::now() + trust_.limits.prove_within,
                       [this, id](const std::string& refusal) { settle(id, refusal); });
}

void PeerListener::settle(Admission::PeerId id, const std::string& refusal) {
  admission_.settled(id);
  Pending pending = std::move(pending_.extract(id).mapped());
  if (refusal.empty()) {
    gate_.proved(pending.source);
    return hooks_.on_peer(std::move(pending.connection));
  }
  if (pending.connection.left_silently()) return;
  gate_.failed(pending.source, Clock::now());
  await_gate();
  tell(pending.source, pending.address, refusal);
}

void PeerListener::await_gate() {
  if (gate_.next_deadline() == gate_opens_.expiry() || gate_.next_deadline() == TimePoint::max()) return;
  gate_opens_.expires_at(gate_.next_deadline());
  gate_opens_.async_wait([this, alive = std::weak_ptr(alive_)](const std::error_code& error) {
    if (error || alive.expired()) return;
    gate_.let_in(Clock::now());
    await_gate();
  });
}

void PeerListener::tell(const PeerSource& source, const std::string& address, const std::string& refusal) {
  const auto line = refusals_.refused(source, address, refusal, Clock::now());
  if (line) hooks_.on_refusal(*line);
}

}  // namespace ddprun::rendezvous

#include "tests/support/store_rig.h"

#include <utility>

#include <asio/post.hpp>

#include "rendezvous/store/proxy/store_opening.h"

namespace ddprun::test {

StoreRig::StoreRig(const Options& options)
    : options_(options), store_(std::make_unique<rendezvous::Server>(options.store)), gateway_(store_->gateway()) {
  listener_ = std::make_unique<rendezvous::PeerListener>(
      io_, rendezvous::open_listener("127.0.0.1", 0), trust("node0"),
      rendezvous::PeerListener::Hooks{[this](rendezvous::PeerConnection peer) { accept(std::move(peer)); },
                                      [](const std::string&) {}});
  thread_ = std::thread([this] { io_.run(); });
  for (std::size_t i = 0; i < options.proxies; ++i) {
    proxies_.push_back(std::make_unique<rendezvous::StoreProxy>(options.proxy));
    if (options.dial) dial(i);
  }
}

StoreRig::~StoreRig() {
  asio::post(io_, [this] {
    dialers_.clear();
    pending_peers_.clear();
    listener_.reset();
    work_.reset();
  });
  thread_.join();
}

rendezvous::PeerTrust StoreRig::trust(const std::string& name) const {
  return {std::make_shared<rendezvous::TlsContext>(options_.credentials, "job"),
          rendezvous::make_identity(name, "job"),
          {}};
}

void StoreRig::dial(std::size_t number) {
  rendezvous::StoreDialer::Options dial{"127.0.0.1", control_port(), kRound,
                                        trust("node" + std::to_string(number + 1))};
  asio::post(io_, [this, dial, upstream = proxy(number).upstream()] { dialers_.emplace_back(io_, dial, upstream); });
}

void StoreRig::accept(rendezvous::PeerConnection connection) {
  pending_peers_.push_back({std::move(connection)});
  read(std::prev(pending_peers_.end()));
}

void StoreRig::read(std::list<PendingPeer>::iterator pending) {
  const auto room = asio::buffer(pending->input);
  pending->connection.read_some(room, [this, pending](const std::error_code& error, std::size_t count) {
    pending->reader.add({pending->input.data(), count});
    const auto message = pending->reader.next();
    if (!error && !message) return read(pending);
    if (message && rendezvous::parse_store_opening(*message) == kRound)
      serve_store(std::move(pending->connection), gateway_);
    pending_peers_.erase(pending);
  });
}

}  // namespace ddprun::test

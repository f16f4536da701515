#include "agent/coordination.h"

#include <optional>
#include <utility>

#include <asio/steady_timer.hpp>

#include "rendezvous/coordinator_server.h"
#include "rendezvous/error.h"
#include "rendezvous/listen_socket.h"
#include "rendezvous/overloaded.h"
#include "rendezvous/peer_listener.h"

namespace ddprun {
namespace {

std::uint64_t clock_seed() { return static_cast<std::uint64_t>(Clock::now().time_since_epoch().count()); }

// What an order of the coordinator means to the only node.
ToAgent as_message(const Order& order) {
  return std::visit(overloaded{
                        [](const FormRound& o) -> ToAgent { return TakeSeat{seats(o.round).front()}; },
                        [](const Recall& o) -> ToAgent {
                          return EndRound{o.round, false, ""};
                        },
                        [](const Dismiss& o) -> ToAgent { return EndJob{o.outcome}; },
                        [](const auto& o) -> ToAgent { return o; },
                    },
                    order);
}

class Here : public Coordination {
 public:
  Here(asio::io_context& io, const RoundPolicy& policy, Hooks hooks)
      : coordinator_(policy, Clock::now(), clock_seed()), deadline_(io), hooks_(std::move(hooks)) {}

  void start() override { hooks_.on_connected(); }

  bool send(const FromAgent& message) override {
    std::visit(overloaded{
                   [](const Hello&) {},
                   [](const Heartbeat&) {},
                   [](const FailureWords&) {},
                   [&](const auto& m) { tell(m); },
               },
               message);
    return true;
  }

  bool connected() const override { return true; }
  NodeId node() const override { return 0; }
  void leave() override {}
  bool all_left(std::chrono::milliseconds) override { return true; }

 private:
  void tell(const Message& message) {
    for (const Order& order : coordinator_.on(message, Clock::now())) hooks_.on_message(as_message(order));
    const auto due = coordinator_.next_deadline();
    if (!due) return void(deadline_.cancel());
    deadline_.expires_at(*due);
    deadline_.async_wait([this](const asio::error_code& error) {
      if (!error) tell(CoordinatorTick{});
    });
  }

  Coordinator coordinator_;
  asio::steady_timer deadline_;
  Hooks hooks_;
};

class There : public Coordination {
 public:
  There(asio::io_context& io, const RoundPolicy& policy, const Meeting& meeting, Hooks hooks)
      : io_(io),
        trust_{std::make_shared<TlsContext>(meeting.credentials, meeting.run_id),
               make_identity(meeting.name, meeting.run_id),
               {}},
        meeting_(meeting),
        hooks_(std::move(hooks)) {
    if (!trust_.tls->plain()) trust_.tls->prepare();
    listen(policy);
  }

  void start() override {
    client_ = std::make_unique<CoordinatorClient>(
        io_, CoordinatorClient::Options{meeting_.places, trust_, {meeting_.fingerprint, control_port_}},
        CoordinatorClient::Hooks{[this](const Welcome&) { hooks_.on_connected(); },
                                 [this](const ToAgent& message) { hooks_.on_message(message); },
                                 [this] { hooks_.on_isolated(); },
                                 [this](const std::string& why) { hooks_.on_trouble(why); }});
  }

  bool send(const FromAgent& message) override { return client_ && client_->send(message); }
  bool connected() const override { return client_ && client_->connected(); }
  NodeId node() const override { return trust_.own.instance; }

  void leave() override { client_.reset(); }
  bool all_left(std::chrono::milliseconds most) override { return !server_ || server_->wait_until_left(most); }

 private:
  // The server has a loop and a context of its own: TLS contexts are for one thread.
  void listen(const RoundPolicy& policy) {
    const std::uint16_t port = meeting_.host ? meeting_.places.front().port : meeting_.control_port;
    Listening listening;
    try {
      listening = open_listener("", port);
    } catch (const Error&) {
      if (!meeting_.host || !meeting_.others_may_host) throw;
      meeting_.host = false;
      listening = open_listener("", meeting_.control_port);
    }
    control_port_ = listening.port;
    if (!meeting_.host) {
      listener_.emplace(
          io_, listening, trust_,
          PeerListener::Hooks{[](PeerConnection) {}, [this](const std::string& line) { hooks_.log(line); }});
      return;
    }
    const PeerTrust trust{std::make_shared<TlsContext>(meeting_.credentials, meeting_.run_id),
                          make_identity(meeting_.name, meeting_.run_id),
                          {}};
    server_ = std::make_unique<CoordinatorServer>(
        CoordinatorServer::Options{listening, trust, meeting_.fingerprint, policy, kLease, hooks_.log});
  }

  asio::io_context& io_;
  PeerTrust trust_;
  Meeting meeting_;
  Hooks hooks_;
  std::uint16_t control_port_ = 0;
  std::optional<PeerListener> listener_;  // of an agent that does not host: that it answers shows that it lives
  std::unique_ptr<CoordinatorServer> server_;
  std::unique_ptr<CoordinatorClient> client_;
};

}  // namespace

std::unique_ptr<Coordination> coordinate_here(asio::io_context& io, const RoundPolicy& policy,
                                              Coordination::Hooks hooks) {
  return std::make_unique<Here>(io, policy, std::move(hooks));
}

std::unique_ptr<Coordination> meet(asio::io_context& io, const RoundPolicy& policy, const Meeting& meeting,
                                   Coordination::Hooks hooks) {
  return std::make_unique<There>(io, policy, meeting, std::move(hooks));
}

}  // namespace ddprun

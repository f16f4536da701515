#include "rendezvous/coordination/server/coordinator_probes.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>

namespace ddprun::rendezvous {
namespace {

using asio::ip::tcp;

constexpr std::chrono::milliseconds kProbeEvery{50};

std::optional<tcp::endpoint> endpoint_of(const ControlAddress& agent) {
  std::error_code no_address;
  const auto parsed = asio::ip::make_address(agent.host, no_address);
  if (no_address || agent.port == 0) return {};
  return tcp::endpoint(parsed, agent.port);
}

}  // namespace

// Repeats until its owner drops it.
class CoordinatorProbes::Probe : public std::enable_shared_from_this<Probe> {
 public:
  struct Hooks {
    std::function<void()> on_refused;
    std::function<Duration()> pause;  // until the next attempt
  };
  Probe(asio::io_context& io, const tcp::endpoint& agent, Hooks hooks)
      : socket_(io), retry_timer_(io), agent_(agent), hooks_(std::move(hooks)) {}

  void schedule(Duration time) {
    retry_timer_.expires_after(time);
    retry_timer_.async_wait([held = weak_from_this()](const std::error_code&) {
      if (const auto self = held.lock()) self->probe();
    });
  }

  const tcp::endpoint& agent() const { return agent_; }

 private:
  void probe() {
    socket_ = tcp::socket(socket_.get_executor());
    socket_.async_connect(agent_, [held = weak_from_this()](const std::error_code& error) {
      const auto self = held.lock();
      if (!self) return;
      if (error == asio::error::connection_refused) return self->hooks_.on_refused();
      std::error_code ignored;
      self->socket_.close(ignored);  // it takes one of the agent's places for unauthenticated peers
      self->schedule(self->hooks_.pause());
    });
  }

  tcp::socket socket_;
  asio::steady_timer retry_timer_;
  tcp::endpoint agent_;
  Hooks hooks_;
};

CoordinatorProbes::CoordinatorProbes(asio::io_context& io, std::function<void(NodeId)> on_gone)
    : io_(io), on_gone_(std::move(on_gone)) {}

CoordinatorProbes::~CoordinatorProbes() = default;

void CoordinatorProbes::start(NodeId node, const ControlAddress& agent, Duration in) {
  const auto endpoint = endpoint_of(agent);
  if (!endpoint) return;
  const auto probe =
      std::make_shared<Probe>(io_, *endpoint, Probe::Hooks{[this, node] { gone(node); }, [this] { return pause(); }});
  probes_[node] = probe;
  probe->schedule(in);
}

void CoordinatorProbes::on_agent(const ControlAddress& agent) {
  const auto taken = endpoint_of(agent);
  if (!taken) return;
  std::vector<NodeId> dead;
  for (const auto& [node, probe] : probes_)
    if (probe->agent() == *taken) dead.push_back(node);
  for (const NodeId node : dead) gone(node);
}

void CoordinatorProbes::gone(NodeId node) {
  probes_.erase(node);
  on_gone_(node);
}

Duration CoordinatorProbes::pause() const {
  const auto turns = static_cast<Duration::rep>(probes_.size());
  return std::max<Duration>(kProbeEvery, turns * Duration(std::chrono::seconds(1)) / kProbesPerSecond);
}

}  // namespace ddprun::rendezvous

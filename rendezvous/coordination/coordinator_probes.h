// Asks where the agents of lost nodes listened until it is refused there: then their processes are gone.
//
// Such an agent answered by name and port before, so who refuses there now is its kernel. Where many are lost they take
// turns. For the thread of its io_context; hooks never run inside a call of ours but on_agent().
#pragma once
#include <functional>
#include <map>
#include <memory>

#include <asio/io_context.hpp>

#include "rendezvous/base/time.h"
#include "rendezvous/coordination/round.h"

namespace ddprun::rendezvous {

constexpr int kProbesPerSecond = 1000;  // of all together

class CoordinatorProbes {
 public:
  CoordinatorProbes(asio::io_context& io, std::function<void(NodeId)> on_gone);
  ~CoordinatorProbes();

  // Nothing where the address is no number, or the port unknown.
  void start(NodeId node, const ControlAddress& agent, Duration in = {});
  void stop(NodeId node) { probes_.erase(node); }
  void stop_all() { probes_.clear(); }
  // An agent that listens where lost ones did has taken its port from the dead.
  void on_agent(const ControlAddress& agent);

 private:
  class Probe;
  void gone(NodeId node);
  Duration pause() const;

  asio::io_context& io_;
  const std::function<void(NodeId)> on_gone_;
  std::map<NodeId, std::shared_ptr<Probe>> probes_;
};

}  // namespace ddprun::rendezvous

// Probes the ports of lost nodes' agents until a connection is refused: then that agent's process is gone.
//
// The agent answered at that address and port before, so a refusal comes from its kernel. Many probes take turns. For
// the thread of its io_context; hooks are never called inside a function of ours, except on_agent().
#pragma once
#include <functional>
#include <map>
#include <memory>

#include <asio/io_context.hpp>

#include "rendezvous/base/time.h"
#include "rendezvous/coordination/round/round.h"

namespace ddprun::rendezvous {

constexpr int kProbesPerSecond = 1000;  // of all together

class CoordinatorProbes {
 public:
  CoordinatorProbes(asio::io_context& io, std::function<void(NodeId)> on_gone);
  ~CoordinatorProbes();

  // Does nothing if the address is not numeric, or the port unknown.
  void start(NodeId node, const ControlAddress& agent, Duration in = {});
  void stop(NodeId node) { probes_.erase(node); }
  void stop_all() { probes_.clear(); }
  // An agent that listens at a lost one's port has taken it from a dead process.
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

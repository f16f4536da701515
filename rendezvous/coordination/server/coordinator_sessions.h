// The agents that have said hello to the coordinator: their connections, and what is sent over them.
//
// For the thread of its io_context. Inside a handler of a session, that session may be removed.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <asio/io_context.hpp>

#include "rendezvous/coordination/wire/control_link.h"
#include "rendezvous/coordination/wire/control_message.h"

namespace ddprun::rendezvous {

// Ends a link, also inside one of its handlers.
void end_link(asio::io_context& io, std::unique_ptr<ControlLink> link);

class CoordinatorSessions {
 public:
  struct Hooks {
    std::function<void(NodeId, const std::string& bytes)> on_message;
    std::function<void(NodeId, const std::string& why)> on_closed;
  };
  CoordinatorSessions(asio::io_context& io, Hooks hooks) : io_(io), hooks_(std::move(hooks)) {}

  // Adds the link's peer, which has no session yet. Returns where its agent listens, at its connection's address.
  const ControlAddress& add(std::unique_ptr<ControlLink> link, std::uint16_t control_port);
  ControlAddress remove(NodeId node);
  bool empty() const { return sessions_.empty(); }
  // Null: it has none.
  ControlLink* find(NodeId node) const;
  const ControlAddress& place(NodeId node) const { return sessions_.at(node).place; }

  // Nothing is sent to a node without a session.
  void send(NodeId node, const ToAgent& message);
  void send(const std::vector<NodeId>& nodes, const ToAgent& message);
  void send_to_all(const ToAgent& message);
  template <class Function>
  void for_each(Function function) const {
    for (const auto& [node, session] : sessions_) function(node, *session.link);
  }

 private:
  struct Session {
    std::unique_ptr<ControlLink> link;
    ControlAddress place;
  };

  asio::io_context& io_;
  const Hooks hooks_;
  std::map<NodeId, Session> sessions_;
};

}  // namespace ddprun::rendezvous

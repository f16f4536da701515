#include "rendezvous/coordination/server/coordinator_sessions.h"

#include <utility>

#include <asio/post.hpp>

namespace ddprun::rendezvous {

void end_link(asio::io_context& io, std::unique_ptr<ControlLink> link) {
  link->close();
  asio::post(io, [link = std::move(link)] {});
}

const ControlAddress& CoordinatorSessions::add(std::unique_ptr<ControlLink> link, std::uint16_t control_port) {
  const NodeId node = link->peer().instance;
  link->set_hooks({[this, node](const std::string& bytes) { hooks_.on_message(node, bytes); },
                   [this, node](const std::string& why) { hooks_.on_closed(node, why); }});
  Session& session = sessions_[node];
  session.place = {link->remote_address(), control_port};
  session.link = std::move(link);
  return session.place;
}

ControlAddress CoordinatorSessions::remove(NodeId node) {
  Session session = std::move(sessions_.extract(node).mapped());
  end_link(io_, std::move(session.link));
  return session.place;
}

ControlLink* CoordinatorSessions::find(NodeId node) const {
  const auto found = sessions_.find(node);
  return found == sessions_.end() ? nullptr : found->second.link.get();
}

void CoordinatorSessions::send(NodeId node, const ToAgent& message) {
  if (ControlLink* link = find(node)) link->send(encode(message));
}

void CoordinatorSessions::send(const std::vector<NodeId>& nodes, const ToAgent& message) {
  const std::string bytes = encode(message);
  for (const NodeId node : nodes)
    if (ControlLink* link = find(node)) link->send(bytes);
}

void CoordinatorSessions::send_to_all(const ToAgent& message) {
  const std::string bytes = encode(message);
  for_each([&](NodeId, ControlLink& link) { link.send(bytes); });
}

}  // namespace ddprun::rendezvous

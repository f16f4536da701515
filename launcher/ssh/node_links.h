// The connections by which one process reaches the hosts below it in the tree (tree.h). Edge.
//
// A host that cannot be reached does not cut off those behind it: the next one of its branch takes its place.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include "launcher/ssh/node_link.h"

namespace ddprun::launcher {

class NodeLinks {
 public:
  struct Listener {
    std::function<void(const UpMessage&)> on_message;
    std::function<void()> on_all_closed;
    std::function<bool()> may_read;
  };
  // `order.hosts` are those to reach. `own_name`: a host of that name is reached without ssh; empty: none is.
  NodeLinks(asio::io_context& io, HostJobOrder order, std::string version, std::string own_name, Listener listener);

  void start();
  void send(const DownMessage& message);
  void resume();
  void close();
  bool all_closed() const;

 private:
  void add(std::vector<JobHost> hosts);
  void add_branches(const std::vector<JobHost>& hosts);
  void on_closed(const NodeLink& link);
  void tick();

  asio::io_context& io_;
  const HostJobOrder order_;
  const std::string version_, own_name_;
  Listener listener_;
  asio::steady_timer second_;
  std::vector<std::unique_ptr<NodeLink>> links_;
  bool closing_ = false;
};

}  // namespace ddprun::launcher

// Requests for the stacks of all nodes that are not answered yet.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include "agent/status/agent_socket.h"

namespace ddprun::agent {

class AskedStacks {
 public:
  explicit AskedStacks(asio::io_context& io) : io_(io) {}

  // The number of the new request. After ten seconds it is answered with what has come.
  int begin(AgentSocket::Reply reply);
  // One of `nodes` nodes has sent its workers' stacks; 0: no round is under way.
  void take(int serial, int nodes, std::string text);

 private:
  struct Request {
    AgentSocket::Reply reply;
    std::unique_ptr<asio::steady_timer> timer;
    int nodes = 0;
    bool round_runs = true;
    std::vector<std::string> texts = {};
  };
  void answer(int serial);

  asio::io_context& io_;
  std::map<int, Request> requests_;
  int last_ = 0;
};

}  // namespace ddprun::agent

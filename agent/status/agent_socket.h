// Where `ddprun status` and `ddprun stacks` ask an agent: an abstract Unix socket, which needs no file and is gone with
// its owner. Only the agent's own user and root are answered. Without free descriptors, who asks waits for a moment.
#pragma once
#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/local/stream_protocol.hpp>
#include <asio/steady_timer.hpp>

namespace ddprun::agent {

// "ddprun/<uid>/<agent's pid>/<run id>", without the leading NUL. A run id is cut to 64 bytes, as a name has at most
// 107. Anybody may take any name: what it says is no proof, and the pid may be of another pid namespace.
constexpr std::size_t kNamedRunIdMax = 64;
struct AgentAddress {
  uid_t user = 0;
  pid_t agent = 0;
  std::string run_id;
};
std::string socket_name(const AgentAddress& address);
// The names that somebody listens at, from the text of /proc/net/unix.
std::vector<AgentAddress> listening_agents(const std::string& table);

// What may be asked: a line.
constexpr const char* kAskStacks = "stacks";
constexpr const char* kAskStatus = "status";
constexpr const char* kAskHistory = "status with history";

class AgentSocket {
 public:
  using Reply = std::function<void(const std::string& text)>;
  struct Request {
    std::string line;
    // "user 1000": who asks, as the kernel knows; empty: who it is was not told. Names are looked up by who asks, as a
    // name service may not answer.
    std::string by = {};
  };
  using OnRequest = std::function<void(const Request&, Reply)>;
  // `on_request` is called from the loop; the reply may come later, once. If another has the name, the agent takes one
  // with another number; without any, nobody can ask.
  AgentSocket(asio::io_context& io, AgentAddress own, OnRequest on_request);

 private:
  class Session;
  void accept();

  asio::local::stream_protocol::acceptor acceptor_;
  asio::steady_timer retry_timer_;
  const uid_t user_;
  OnRequest on_request_;
};

}  // namespace ddprun::agent

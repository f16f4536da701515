// Where `ddprun stacks` asks an agent for the stacks of its job's workers: an abstract Unix socket, which needs no file
// and is gone with its owner. Only the agent's own user and root are answered.
#pragma once
#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/local/stream_protocol.hpp>

namespace ddprun::agent {

// "ddprun/<uid>/<agent's pid>/<run id>", without the leading NUL. A run id is cut to 64 bytes, as a name has at most
// 107.
constexpr std::size_t kNamedRunIdMax = 64;
struct StacksAddress {
  uid_t user = 0;
  pid_t agent = 0;
  std::string run_id;
};
std::string socket_name(const StacksAddress& address);
// The agents that listen on this machine, from the text of /proc/net/unix.
std::vector<StacksAddress> listening_agents(const std::string& table);

class StacksSocket {
 public:
  using Reply = std::function<void(std::string text)>;
  // `on_request` is called from the loop; the reply may come later. If the name cannot be taken, nobody can ask.
  StacksSocket(asio::io_context& io, const StacksAddress& own, std::function<void(Reply)> on_request);

 private:
  class Session;
  void accept();

  asio::local::stream_protocol::acceptor acceptor_;
  const uid_t user_;
  std::function<void(Reply)> on_request_;
};

}  // namespace ddprun::agent

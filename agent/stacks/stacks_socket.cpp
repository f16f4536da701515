#include "agent/stacks/stacks_socket.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <sstream>
#include <utility>

#include <asio/write.hpp>

namespace ddprun::agent {
namespace {

constexpr const char* kPrefix = "ddprun/";

bool may_ask(int fd, uid_t user) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && (peer.uid == user || peer.uid == 0);
}

}  // namespace

std::string socket_name(const StacksAddress& address) {
  return kPrefix + std::to_string(address.user) + "/" + std::to_string(address.agent) + "/" +
         address.run_id.substr(0, kNamedRunIdMax);
}

// A line's last column is the name; the kernel shows a leading NUL as '@'.
std::vector<StacksAddress> listening_agents(const std::string& table) {
  std::vector<StacksAddress> out;
  std::istringstream lines(table);
  const std::string begins = std::string(" @") + kPrefix;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t at = line.find(begins);
    if (at == line.npos) continue;
    const char* user = line.c_str() + at + begins.size();
    char* end = nullptr;
    StacksAddress address;
    address.user = static_cast<uid_t>(std::strtoul(user, &end, 10));
    if (*end != '/') continue;
    address.agent = static_cast<pid_t>(std::strtol(end + 1, &end, 10));
    if (*end != '/') continue;
    address.run_id = end + 1;
    const bool known = !out.empty() && out.back().agent == address.agent;  // its connections have lines of their own
    if (!known) out.push_back(std::move(address));
  }
  return out;
}

// Keeps its connection until the reply is written.
class StacksSocket::Session : public std::enable_shared_from_this<Session> {
 public:
  explicit Session(asio::local::stream_protocol::socket socket) : socket_(std::move(socket)) {}
  void reply(std::string text) {
    text_ = std::move(text);
    asio::async_write(socket_, asio::buffer(text_),
                      [self = shared_from_this()](const std::error_code&, std::size_t) {});
  }

 private:
  asio::local::stream_protocol::socket socket_;
  std::string text_;
};

StacksSocket::StacksSocket(asio::io_context& io, const StacksAddress& own, std::function<void(Reply)> on_request)
    : acceptor_(io), user_(own.user), on_request_(std::move(on_request)) {
  const asio::local::stream_protocol::endpoint place(std::string(1, '\0') + socket_name(own));
  std::error_code error;
  acceptor_.open(place.protocol(), error);
  if (!error) acceptor_.bind(place, error);
  if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
  if (!error) accept();
}

void StacksSocket::accept() {
  acceptor_.async_accept([this](const std::error_code& error, asio::local::stream_protocol::socket socket) {
    if (error) return;  // no descriptor is left, or we end: nobody can ask any more
    if (may_ask(socket.native_handle(), user_)) {
      auto session = std::make_shared<Session>(std::move(socket));
      on_request_([session](std::string text) { session->reply(std::move(text)); });
    }
    accept();
  });
}

}  // namespace ddprun::agent

#include "agent/status/agent_socket.h"

#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <optional>
#include <random>
#include <sstream>
#include <utility>

#include <asio/buffer.hpp>
#include <asio/read_until.hpp>
#include <asio/write.hpp>

namespace ddprun::agent {
namespace {

constexpr const char* kPrefix = "ddprun/";
constexpr const char* kListens = " 00010000 ";  // the column of flags: __SO_ACCEPTCON
constexpr int kNamesTried = 4;
constexpr std::size_t kRequestBytesMax = 1024;
constexpr std::chrono::seconds kRequestLimit{2};  // for its line to come
constexpr std::chrono::seconds kReplyLimit{10};   // for the reply to be read
constexpr std::chrono::milliseconds kRetryPause{50};

// Who asks; empty: it may not.
std::optional<uid_t> asker(int fd, uid_t user) {
  ucred peer{};
  socklen_t size = sizeof peer;
  const bool is_known = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0;
  return is_known && (peer.uid == user || peer.uid == 0) ? std::optional(peer.uid) : std::nullopt;
}

}  // namespace

std::string socket_name(const AgentAddress& address) {
  return kPrefix + std::to_string(address.user) + "/" + std::to_string(address.agent) + "/" +
         address.run_id.substr(0, kNamedRunIdMax);
}

// A line's last column is the name; the kernel shows a leading NUL as '@'. Connections have the name, too, in lines of
// their own, with other flags.
std::vector<AgentAddress> listening_agents(const std::string& table) {
  std::vector<AgentAddress> out;
  std::istringstream lines(table);
  const std::string begins = std::string(" @") + kPrefix;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t at = line.find(begins);
    if (at == line.npos || line.find(kListens) > at) continue;
    const char* user = line.c_str() + at + begins.size();
    char* end = nullptr;
    AgentAddress address;
    address.user = static_cast<uid_t>(std::strtoul(user, &end, 10));
    if (*end != '/') continue;
    address.agent = static_cast<pid_t>(std::strtol(end + 1, &end, 10));
    if (*end != '/') continue;
    address.run_id = end + 1;
    out.push_back(std::move(address));
  }
  return out;
}

// Keeps its connection until the reply is written.
class AgentSocket::Session : public std::enable_shared_from_this<Session> {
 public:
  Session(asio::local::stream_protocol::socket socket, uid_t user)
      : socket_(std::move(socket)), limit_(socket_.get_executor()), user_(user) {}

  void read(OnRequest on_request) {
    limit(kRequestLimit);
    asio::async_read_until(
        socket_, asio::dynamic_buffer(text_, kRequestBytesMax), '\n',
        [self = shared_from_this(), on_request = std::move(on_request)](const std::error_code& error,
                                                                        std::size_t size) {
          self->limit_.cancel();
          if (error) return;
          const Request request{self->text_.substr(0, size - 1), "user " + std::to_string(self->user_)};
          on_request(request, [self](const std::string& text) { self->reply(text); });
        });
  }

 private:
  void limit(std::chrono::seconds time) {
    limit_.expires_after(time);
    limit_.async_wait([self = shared_from_this()](const std::error_code& error) {
      if (!error) self->socket_.close();
    });
  }

  void reply(const std::string& text) {
    text_ = text;
    limit(kReplyLimit);
    asio::async_write(socket_, asio::buffer(text_),
                      [self = shared_from_this()](const std::error_code&, std::size_t) { self->limit_.cancel(); });
  }

  asio::local::stream_protocol::socket socket_;
  asio::steady_timer limit_;
  const uid_t user_;
  std::string text_;
};

AgentSocket::AgentSocket(asio::io_context& io, AgentAddress own, OnRequest on_request)
    : acceptor_(io), retry_timer_(io), user_(own.user), on_request_(std::move(on_request)) {
  std::error_code error;
  acceptor_.open(asio::local::stream_protocol(), error);
  for (int i = 0; i < kNamesTried && acceptor_.is_open(); ++i) {
    acceptor_.bind(std::string(1, '\0') + socket_name(own), error);
    if (error != asio::error::address_in_use) break;
    own.agent = static_cast<pid_t>(std::random_device()() >> 1);  // not to be guessed, so not to be taken before
  }
  if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
  if (!error) accept();
}

void AgentSocket::accept() {
  acceptor_.async_accept([this](const std::error_code& error, asio::local::stream_protocol::socket socket) {
    if (error == asio::error::operation_aborted) return;  // we end
    if (error) {                                          // e.g. no descriptor is left
      retry_timer_.expires_after(kRetryPause);
      return retry_timer_.async_wait([this](const std::error_code& ended) {
        if (!ended) accept();
      });
    }
    if (const auto user = asker(socket.native_handle(), user_))
      std::make_shared<Session>(std::move(socket), *user)->read(on_request_);
    accept();
  });
}

}  // namespace ddprun::agent

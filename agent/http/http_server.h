// A small HTTP/1.1 server on the agent's loop: requests without a body, answers with a known length, connections that
// are kept, and limits on everything.
//
// Every connection is accepted; if that makes too many, the oldest one that is not being answered is closed
// (rendezvous/peer/admission.h says why not the newest). A request that is bad is answered with a line of text, and its
// connection closed. For the thread of its io_context; calls no handler after its destruction.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>

#include "agent/http/http_request.h"
#include "agent/http/http_response.h"
#include "agent/http/http_session.h"
#include "rendezvous/peer/acceptor.h"
#include "rendezvous/peer/admission.h"
#include "rendezvous/peer/listen_socket.h"

namespace ddprun::agent {

class HttpServer {
 public:
  // Call it once, now or later; without effect if the client is gone.
  using Answer = std::function<void(HttpResponse)>;
  // For GET and HEAD; other methods are answered with 405.
  using Handler = std::function<void(const HttpRequest& request, Answer answer)>;

  // Takes ownership of `listening`, from open_listener().
  HttpServer(asio::io_context& io, const rendezvous::Listening& listening, Handler handler, HttpLimits limits = {},
             OpenTls tls = {});
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  std::uint16_t port() const { return port_; }
  std::size_t connections() const { return sessions_.size(); }
  std::size_t streams() const { return streams_.size(); }
  // To all clients whose answer was a stream. Those that do not read what has come before are closed.
  void append_to_streams(const std::string& bytes);

 private:
  using Id = rendezvous::Admission::PeerId;
  void admit(asio::ip::tcp::socket socket);
  void enter(HttpSession& session);  // among those that may be closed for others
  void handle(HttpSession& session, const HttpRequest& request);
  void answer(Id id, const HttpResponse& response);
  bool end_oldest_stream();
  void forget(const HttpSession& session);

  const HttpLimits limits_;
  const OpenTls tls_;  // empty: plain HTTP
  const Handler handler_;
  const HttpSession::Hooks hooks_;
  const std::uint16_t port_;
  rendezvous::Admission admission_;
  Id last_id_ = 0;
  std::map<Id, std::shared_ptr<HttpSession>> sessions_;
  std::set<Id> answering_, streams_;
  std::shared_ptr<const int> alive_ = std::make_shared<int>();  // expired for answers that come after our destruction
  rendezvous::Acceptor acceptor_;
};

}  // namespace ddprun::agent

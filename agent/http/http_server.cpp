#include "agent/http/http_server.h"

#include <optional>
#include <system_error>
#include <utility>

namespace ddprun::agent {
namespace {

rendezvous::AdmissionLimits admission_limits(const HttpLimits& limits) {
  rendezvous::AdmissionLimits out;
  out.unauthenticated_max = limits.connections_max;
  out.unauthenticated_per_source_max = limits.connections_max;  // behind a proxy all have one source
  return out;
}

// Empty: the client is gone already.
std::optional<rendezvous::PeerSource> source_of_socket(const asio::ip::tcp::socket& socket) {
  std::error_code gone;
  const asio::ip::address address = socket.remote_endpoint(gone).address();
  if (gone) return {};
  const asio::ip::address_v6 v6 =
      address.is_v6() ? address.to_v6() : asio::ip::make_address_v6(asio::ip::v4_mapped, address.to_v4());
  return rendezvous::source_of(v6.to_bytes());
}

}  // namespace

HttpServer::HttpServer(asio::io_context& io, const rendezvous::Listening& listening, Handler handler, HttpLimits limits,
                       OpenTls tls)
    : limits_(limits),
      tls_(std::move(tls)),
      handler_(std::move(handler)),
      hooks_{[this](HttpSession& session, const HttpRequest& request) { handle(session, request); },
             [this](HttpSession& session) { forget(session); }},
      port_(listening.port),
      admission_(admission_limits(limits)),
      acceptor_(io, listening.fd, [this](asio::ip::tcp::socket socket) { admit(std::move(socket)); }) {}

HttpServer::~HttpServer() {
  for (auto& [id, session] : sessions_) session->close();
}

void HttpServer::admit(asio::ip::tcp::socket socket) {
  const auto source = source_of_socket(socket);
  if (!source) return;
  const auto session = std::make_shared<HttpSession>(std::move(socket), tls_, limits_, hooks_);
  session->source = *source;
  session->id = ++last_id_;
  sessions_.emplace(session->id, session);
  enter(*session);
  session->start();
}

void HttpServer::enter(HttpSession& session) {
  const auto evicted = admission_.add(session.id, session.source);
  if (!evicted) return;
  auto oldest = sessions_.extract(*evicted);
  if (!oldest.empty()) oldest.mapped()->close();
}

void HttpServer::forget(const HttpSession& session) {
  admission_.remove(session.id);
  answering_.erase(session.id);
  streams_.erase(session.id);
  sessions_.erase(session.id);
}

// One whose answer is awaited is not closed for others.
void HttpServer::handle(HttpSession& session, const HttpRequest& request) {
  if (request.method != "GET" && request.method != "HEAD") {
    HttpResponse refusal = http_line(405, "only GET and HEAD are answered here");
    refusal.header = "Allow: GET, HEAD";
    return session.respond(refusal);
  }
  if (answering_.size() >= limits_.answers_max) return session.respond(http_line(503, "too many requests at a time"));
  answering_.insert(session.id);
  admission_.remove(session.id);
  handler_(request, [this, alive = std::weak_ptr(alive_), id = session.id](const HttpResponse& response) {
    if (!alive.expired()) answer(id, response);
  });
}

void HttpServer::answer(Id id, const HttpResponse& response) {
  answering_.erase(id);
  auto answered = sessions_.extract(id);
  if (answered.empty()) return;  // it was answered before, or is gone
  answered.key() = answered.mapped()->id = ++last_id_;
  HttpSession& session = *sessions_.insert(std::move(answered)).position->second;
  if (!response.stream) {
    enter(session);
    return session.respond(response);
  }
  if (streams_.size() >= limits_.streams_max && !end_oldest_stream()) {
    enter(session);
    return session.respond(http_line(503, "too many pages of this job are open at a time; close one of them"));
  }
  streams_.insert(session.id);
  session.stream_since = Clock::now();
  session.respond(response);
}

// Whether its client reads is known only once all buffers on the way are full, which may take hours.
bool HttpServer::end_oldest_stream() {
  const auto oldest = sessions_.find(*streams_.begin());
  if (Clock::now() < oldest->second->stream_since + limits_.stream_place_min) return false;
  const std::shared_ptr<HttpSession> session = oldest->second;
  session->close();
  forget(*session);
  return true;
}

void HttpServer::append_to_streams(const std::string& bytes) {
  for (const Id id : std::set<Id>(streams_))
    if (const auto found = sessions_.find(id); found != sessions_.end()) std::shared_ptr(found->second)->append(bytes);
}

}  // namespace ddprun::agent

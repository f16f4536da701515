// One client's connection to the HTTP server: reads requests one after the other and writes their answers, each within
// a time limit.
//
// Requests that the client sends ahead wait in a buffer of kRequestHeadMax bytes, then in the kernel's. Its server
// keeps it, and closes it. For the thread of its socket's executor.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>

#include "agent/http/http_request.h"
#include "agent/http/http_response.h"
#include "agent/http/http_stream.h"
#include "rendezvous/base/time.h"
#include "rendezvous/peer/admission.h"

namespace ddprun::agent {

struct HttpLimits {
  std::size_t connections_max = 64;                   // whose request is not being answered
  std::size_t answers_max = 16;                       // requests whose answer is awaited; others get 503
  int requests_max = 1000;                            // of a connection
  Duration request_within = std::chrono::seconds(5);  // from its first byte, or the connection, to the head's end
  Duration idle_max = std::chrono::seconds(120);      // between two requests: longer than usual scrape intervals
  Duration write_within = std::chrono::seconds(10);   // for the client to take an answer
  Duration linger_max = std::chrono::seconds(1);      // after the last answer, for the client to close
  std::size_t linger_bytes_max = 64 << 10;            // that it may send meanwhile
  std::size_t streams_max = 16;                       // answers without an end; others get 503
  std::size_t stream_bytes_max = 4 << 20;             // that wait for a stream's client to read; with more it is closed
  // At streams_max the oldest one is closed for a new one once it is so old: a client that reads asks again.
  Duration stream_place_min = std::chrono::seconds(60);
};

class HttpSession : public std::enable_shared_from_this<HttpSession> {
 public:
  struct Hooks {
    std::function<void(HttpSession&, const HttpRequest&)> on_request;  // respond() follows, now or later
    std::function<void(HttpSession&)> on_end;                          // its socket is closed
  };
  // `limits` and `hooks` must outlive it, or close() come before their end.
  HttpSession(asio::ip::tcp::socket socket, const OpenTls& tls, const HttpLimits& limits, const Hooks& hooks);

  void start();
  void respond(const HttpResponse& response);
  void append(const std::string& bytes);  // to an answer that is a stream, within stream_bytes_max
  void close();                           // at once, without a call of on_end

  rendezvous::PeerSource source = {};  // these are the server's own
  std::uint64_t id = 0;
  TimePoint stream_since = {};

 private:
  void limit(Duration time);
  void receive();
  void take_requests();
  void written();
  void linger();
  void write();
  void begin_stream();
  void discard(std::size_t left);
  void end();

  HttpStream socket_;
  asio::steady_timer timer_;
  const HttpLimits& limits_;
  const Hooks& hooks_;
  std::array<char, 2048> chunk_;
  std::string received_;                 // since the last request
  std::string output_, waiting_output_;  // the second one: of a stream, to be written after the first one
  int requests_ = 0;
  bool head_only_ = false, keep_alive_ = false;  // of the request that is being answered
  bool in_request_ = true;                       // some of a request has come, or is due
  bool is_stream_ = false, writing_ = false;
  bool closed_ = false;
};

}  // namespace ddprun::agent

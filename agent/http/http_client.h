// Sends one JSON text at a time to an HTTP server, over http or https, and takes the status of its answer.
//
// A connection for each, unless it is to be kept; no redirects, no proxies. One limit of time covers all, from the
// look-up of the name to the answer. For the thread of its io_context; handlers are never called inside a function of
// ours, nor after stop() or our destruction; they may destroy us.
#pragma once
#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include "agent/http/answer_reader.h"
#include "agent/http/http_stream.h"
#include "agent/http/http_url.h"
#include "rendezvous/base/time.h"
#include "rendezvous/peer/connector.h"

namespace ddprun::agent {

struct HttpPost {
  HttpUrl url = {};
  HttpHeaders headers = {};
  std::string json = {};
  OpenTls tls = {};  // for https
  // The connection, for the next post to the same place; and the answer's body is read.
  bool keep = false;
  // Gets the body if the status is 200, as it comes, instead of the result; the limit ends with the first of it.
  std::function<void(const std::string&)> piece = {};
};

struct PostResult {
  int status = 0;  // 0: no answer
  std::optional<std::chrono::seconds> retry_after = {};
  std::string why = {};     // if there is no answer: "it does not answer", "its certificate is refused: ..."
  bool tls_failed = false;  // then
  std::string body = {};    // if the connection was to be kept

  bool taken() const { return status >= 200 && status <= 299; }
};

class HttpClient {
 public:
  using Done = std::function<void(const PostResult&)>;
  // `names` empty: its own.
  explicit HttpClient(asio::io_context& io, std::shared_ptr<rendezvous::Resolver> names = {});
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // One at a time. `done` is called once.
  void post(HttpPost post, Duration within, Done done);
  void stop();
  bool is_busy() const { return static_cast<bool>(done_); }
  bool keeps_connection() const { return keeps_; }
  const HttpUrl& url() const { return post_.url; }                     // of the last post
  const std::string& local_address() const { return local_address_; }  // of the last connection

 private:
  void connected(asio::ip::tcp::socket socket);
  void send();
  void receive();
  void take(const std::error_code& error, std::size_t count);
  void end_post();
  void fail(const std::error_code& error, const char* what);
  void finish(const PostResult& result);
  template <class Function>
  auto of_this_post(Function function);

  rendezvous::Connector connector_;
  asio::steady_timer limit_;
  std::shared_ptr<HttpStream> stream_;
  HttpPost post_;
  std::string output_, body_, local_address_;
  AnswerReader reader_;
  bool keeps_ = false, used_ = false;  // the connection, and it was kept before
  std::array<char, 16 << 10> chunk_{};
  Done done_;
  std::shared_ptr<const int> running_;  // expired for handlers of an older post
};

}  // namespace ddprun::agent

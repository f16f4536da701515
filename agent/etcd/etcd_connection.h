// A connection to one member of etcd: HTTP or HTTPS, one request at a time, kept for the next one.
//
// For the thread of its io_context. Handlers are never called inside a function of ours, nor after our destruction;
// they may destroy us.
#pragma once
#include <array>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <asio/io_context.hpp>

#include "agent/http/answer_reader.h"
#include "agent/http/http_stream.h"
#include "rendezvous/peer/connector.h"

namespace ddprun::agent {

struct MemberAnswer {
  int status = 0;  // 0: none
  std::string body = {};
  std::string why = {};  // if there is none
  bool lasting = false;  // then: TLS has failed, which cannot mend by itself
  bool stale = false;    // then: the connection had ended before the request
};

class EtcdConnection {
 public:
  using Done = std::function<void(const MemberAnswer&)>;
  // Of the body, as it comes, if the status is 200. It is not part of the answer then.
  using Piece = std::function<void(const std::string&)>;
  EtcdConnection(asio::io_context& io, std::shared_ptr<rendezvous::Resolver> names, HttpUrl member, OpenTls tls);
  ~EtcdConnection();
  EtcdConnection(const EtcdConnection&) = delete;
  EtcdConnection& operator=(const EtcdConnection&) = delete;

  // Connects first if need be.
  void post(const std::string& path, const HttpHeaders& headers, const std::string& json, Done done, Piece piece = {});
  bool keeps() const { return keeps_; }  // after an answer: another one may be asked for
  const HttpUrl& member() const { return member_; }
  const std::string& local_address() const { return local_address_; }

 private:
  void connected(asio::ip::tcp::socket socket);
  void send();
  void receive();
  void take(const std::error_code& error, std::size_t count);
  void fail(const std::error_code& error);
  void finish(MemberAnswer answer);
  template <class Function>
  auto guarded(Function function);

  const HttpUrl member_;
  const OpenTls tls_;
  rendezvous::Connector connector_;
  std::unique_ptr<HttpStream> stream_;
  std::string output_, body_, local_address_;
  std::array<char, 16 << 10> chunk_{};
  AnswerReader reader_;
  Done done_;
  Piece piece_;
  bool keeps_ = false, used_ = false;
  std::shared_ptr<const int> alive_ = std::make_shared<int>();
};

}  // namespace ddprun::agent

// The connection of an HTTP client or server: TCP, or TLS over it.
//
// It has as much of asio::ip::tcp::socket as they use, so that asio::async_write() takes it. One read and one write may
// run at the same time. With TLS, handlers are never called inside a function of ours, nor after close(). A server
// begins TLS with the client's first byte, so that a silent client costs a socket alone.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <system_error>

#include <asio/buffer.hpp>
#include <asio/ip/tcp.hpp>

#include "rendezvous/peer/tls_plugin.h"

namespace ddprun::agent {

// Opens a session of TLS. May throw.
using OpenTls = std::function<std::shared_ptr<rendezvous::TlsSession>()>;

class HttpStream {
 public:
  using executor_type = asio::ip::tcp::socket::executor_type;
  using Handler = std::function<void(const std::error_code&, std::size_t)>;
  // `tls` empty: plain.
  explicit HttpStream(asio::ip::tcp::socket socket, OpenTls tls = {});
  ~HttpStream();
  HttpStream(const HttpStream&) = delete;
  HttpStream& operator=(const HttpStream&) = delete;

  executor_type get_executor();
  int native_handle();
  template <class Option>
  void set_option(const Option& option, std::error_code& error);
  // Of a client, before it writes.
  void handshake(Handler done);
  // Of several buffers the first is used.
  template <class Buffers, class Done>
  void async_read_some(const Buffers& to, Done done) {
    read(*asio::buffer_sequence_begin(to), std::move(done));
  }
  template <class Buffers, class Done>
  void async_write_some(const Buffers& from, Done done) {
    write(*asio::buffer_sequence_begin(from), std::move(done));
  }
  void shutdown(asio::ip::tcp::socket::shutdown_type what, std::error_code& error);
  void close(std::error_code& error);
  // Why TLS failed: "its certificate is refused: certificate has expired"; empty: it has not.
  const std::string& why() const;

 private:
  struct Impl;
  void read(asio::mutable_buffer to, Handler done);
  void write(asio::const_buffer from, Handler done);
  asio::ip::tcp::socket& socket();
  std::shared_ptr<Impl> impl_;
};

template <class Option>
void HttpStream::set_option(const Option& option, std::error_code& error) {
  socket().set_option(option, error);
}

}  // namespace ddprun::agent

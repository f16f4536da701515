#include "agent/http/http_stream.h"

#include <algorithm>
#include <array>
#include <exception>
#include <utility>

#include <asio/post.hpp>
#include <asio/write.hpp>

namespace ddprun::agent {
namespace {

constexpr std::size_t kEncryptedAtATime = 32 << 10;

std::error_code tls_failed() { return std::make_error_code(std::errc::bad_message); }

}  // namespace

using rendezvous::TlsResult;

struct HttpStream::Impl : std::enable_shared_from_this<Impl> {
  Impl(asio::ip::tcp::socket connected, OpenTls open) : socket(std::move(connected)), open_tls(std::move(open)) {}

  void open();
  void advance();
  void receive();
  void finish_read(const std::error_code& error, std::size_t count);
  void encrypt(asio::const_buffer from, Handler done);
  void flush();
  void finish_write(const std::error_code& error);
  void call(Handler handler, const std::error_code& error, std::size_t count);

  asio::ip::tcp::socket socket;
  const OpenTls open_tls;
  std::shared_ptr<rendezvous::TlsSession> session = {};
  bool shaken = false, only_shake = false, sending = false, ends = false, closed = false;
  std::string why = {}, output = {};
  std::array<char, 4096> input{};
  asio::mutable_buffer read_to = {};
  std::size_t written = 0;
  Handler on_read = {}, on_written = {};
};

void HttpStream::Impl::open() {
  try {
    session = open_tls();
  } catch (const std::exception& error) {
    why = error.what();
  }
  if (!session) finish_read(tls_failed(), 0);
}

// Continues the handshake, or reads, with the bytes that are here.
void HttpStream::Impl::advance() {
  std::size_t count = 0;
  TlsResult result = shaken ? TlsResult::done : session->handshake();
  shaken = result == TlsResult::done;
  if (shaken && !only_shake) result = session->read(static_cast<char*>(read_to.data()), read_to.size(), count);
  flush();
  if (result == TlsResult::need_input) return receive();
  if (result == TlsResult::failed) why = session->why();
  if (result == TlsResult::failed) return finish_read(tls_failed(), 0);
  finish_read(result == TlsResult::closed ? std::error_code(asio::error::eof) : std::error_code(), count);
}

void HttpStream::Impl::receive() {
  socket.async_read_some(asio::buffer(input),
                         [self = shared_from_this()](const std::error_code& error, std::size_t count) {
                           if (!self->on_read) return;
                           if (error) return self->finish_read(error, 0);
                           if (!self->session) self->open();
                           if (!self->session) return;
                           self->session->take_in({self->input.data(), count});
                           self->advance();
                         });
}

void HttpStream::Impl::finish_read(const std::error_code& error, std::size_t count) {
  only_shake = false;
  if (on_read) call(std::exchange(on_read, {}), error, count);
}

void HttpStream::Impl::encrypt(asio::const_buffer from, Handler done) {
  on_written = std::move(done);
  written = std::min(from.size(), kEncryptedAtATime);
  if (!shaken || session->write({static_cast<const char*>(from.data()), written}) != TlsResult::done)
    return finish_write(tls_failed());
  flush();
}

// Sends what TLS wants to send; then the write is done.
void HttpStream::Impl::flush() {
  if (sending || closed) return;
  std::array<char, 4096> bytes;
  while (const std::size_t count = session->take_out(bytes.data(), bytes.size())) output.append(bytes.data(), count);
  if (output.empty()) {
    if (on_written) finish_write({});
    std::error_code ignored;
    if (ends) socket.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
    return;
  }
  sending = true;
  asio::async_write(socket, asio::buffer(output),
                    [self = shared_from_this()](const std::error_code& error, std::size_t) {
                      self->sending = false;
                      self->output.clear();
                      error ? self->finish_write(error) : self->flush();
                    });
}

void HttpStream::Impl::finish_write(const std::error_code& error) {
  if (on_written) call(std::exchange(on_written, {}), error, error ? 0 : written);
}

void HttpStream::Impl::call(Handler handler, const std::error_code& error, std::size_t count) {
  asio::post(socket.get_executor(), [self = shared_from_this(), handler = std::move(handler), error, count] {
    if (!self->closed) handler(error, count);
  });
}

HttpStream::HttpStream(asio::ip::tcp::socket socket, OpenTls tls)
    : impl_(std::make_shared<Impl>(std::move(socket), std::move(tls))) {}

HttpStream::~HttpStream() {
  std::error_code ignored;
  close(ignored);
}

HttpStream::executor_type HttpStream::get_executor() { return impl_->socket.get_executor(); }
int HttpStream::native_handle() { return impl_->socket.native_handle(); }
asio::ip::tcp::socket& HttpStream::socket() { return impl_->socket; }
const std::string& HttpStream::why() const { return impl_->why; }

void HttpStream::handshake(Handler done) {
  impl_->on_read = std::move(done);
  if (!impl_->open_tls) return impl_->finish_read({}, 0);
  impl_->only_shake = true;
  impl_->open();
  if (impl_->session) impl_->advance();
}

void HttpStream::read(asio::mutable_buffer to, Handler done) {
  if (!impl_->open_tls) return impl_->socket.async_read_some(asio::buffer(to), std::move(done));
  impl_->read_to = to;
  impl_->on_read = std::move(done);
  impl_->session ? impl_->advance() : impl_->receive();
}

void HttpStream::write(asio::const_buffer from, Handler done) {
  if (!impl_->open_tls) return impl_->socket.async_write_some(asio::buffer(from), std::move(done));
  impl_->encrypt(from, std::move(done));
}

void HttpStream::shutdown(asio::ip::tcp::socket::shutdown_type what, std::error_code& error) {
  if (!impl_->session || what != asio::ip::tcp::socket::shutdown_send) {
    impl_->socket.shutdown(what, error);
    return;
  }
  impl_->ends = true;
  if (impl_->shaken) impl_->session->write_close_notify();
  impl_->flush();
}

void HttpStream::close(std::error_code& error) {
  impl_->closed = true;
  impl_->on_read = impl_->on_written = {};
  impl_->socket.close(error);
}

}  // namespace ddprun::agent

#include "tests/rendezvous/peer/foreign_tls.h"

#include <openssl/err.h>

namespace ddprun::test {

ForeignContext foreign_context() { return ForeignContext(SSL_CTX_new(TLS_method())); }

ForeignSession::ForeignSession(SSL_CTX* context, rendezvous::PeerRole role) : ssl_(SSL_new(context)) {
  SSL_set_bio(ssl_, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
  role == rendezvous::PeerRole::server ? SSL_set_accept_state(ssl_) : SSL_set_connect_state(ssl_);
}

ForeignSession::~ForeignSession() { SSL_free(ssl_); }

void ForeignSession::take_in(std::string_view received) {
  BIO_write(SSL_get_rbio(ssl_), received.data(), static_cast<int>(received.size()));
}

std::size_t ForeignSession::take_out(char* to, std::size_t size) {
  const int count = BIO_read(SSL_get_wbio(ssl_), to, static_cast<int>(size));
  return count > 0 ? static_cast<std::size_t>(count) : 0;
}

rendezvous::TlsResult ForeignSession::judge(int returned) {
  if (returned == 1) return rendezvous::TlsResult::done;
  const int error = SSL_get_error(ssl_, returned);
  ERR_clear_error();
  if (error == SSL_ERROR_WANT_READ) return rendezvous::TlsResult::need_input;
  return error == SSL_ERROR_ZERO_RETURN ? rendezvous::TlsResult::closed : rendezvous::TlsResult::failed;
}

rendezvous::TlsResult ForeignSession::handshake() { return judge(SSL_do_handshake(ssl_)); }
rendezvous::TlsResult ForeignSession::read(char* to, std::size_t size, std::size_t& count) {
  return judge(SSL_read_ex(ssl_, to, size, &count));
}
rendezvous::TlsResult ForeignSession::write(std::string_view bytes) {
  std::size_t written = 0;
  return judge(SSL_write_ex(ssl_, bytes.data(), bytes.size(), &written));
}
void ForeignSession::write_close_notify() { SSL_shutdown(ssl_); }

std::string all_output(rendezvous::TlsSession& session) {
  std::string out;
  char bytes[4096];
  while (const std::size_t count = session.take_out(bytes, sizeof bytes)) out.append(bytes, count);
  return out;
}

Meeting meet(rendezvous::TlsSession& server, rendezvous::TlsSession& client, std::size_t piece) {
  Meeting meeting;
  const auto step = [&](rendezvous::TlsSession& from, rendezvous::TlsResult& result, rendezvous::TlsSession& to,
                        rendezvous::TlsResult& other, std::string& record) {
    if (result == rendezvous::TlsResult::need_input) result = from.handshake();
    const std::string bytes = all_output(from);
    record += bytes;
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      to.take_in(std::string_view(bytes).substr(at, piece));
      if (other == rendezvous::TlsResult::need_input && at + piece < bytes.size()) other = to.handshake();
    }
    return !bytes.empty();
  };
  for (bool moved = true; moved;) {
    moved = step(client, meeting.client, server, meeting.server, meeting.from_client);
    moved = step(server, meeting.server, client, meeting.client, meeting.from_server) || moved;
  }
  return meeting;
}

std::string passed_on(rendezvous::TlsSession& from, rendezvous::TlsSession& to, const std::string& text) {
  from.write(text);
  to.take_in(all_output(from));
  std::string out(text.size(), '\0');
  std::size_t count = 0;
  to.read(out.data(), out.size(), count);
  out.resize(count);
  return out;
}

}  // namespace ddprun::test

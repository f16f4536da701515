#include "rendezvous/peer/tls_context.h"

#include <new>
#include <utility>

#include "rendezvous/base/error.h"
#include "rendezvous/peer/tls_module.h"

namespace ddprun::rendezvous {
namespace {

TlsKeys keys_of(const Credentials& credentials, const std::string& run_id) {
  if (const auto* token = std::get_if<Token>(&credentials)) return {.token = token->secret(), .run_id = run_id};
  const auto& files = std::get<CertificateFiles>(credentials);
  const auto file = [](const PemFile& from) { return TlsFile{from.name().c_str(), from.text()}; };
  return {.certificate = file(files.certificate), .key = file(files.key), .authority = file(files.authority)};
}

}  // namespace

TlsContext::TlsContext(Credentials credentials, std::string run_id)
    : credentials_(std::move(credentials)), run_id_(std::move(run_id)) {}

void TlsContext::prepare() {
  if (plain() || engine_) return;
  std::string why;
  engine_ = make_tls_engine(keys_of(credentials_, run_id_), why);
  if (engine_) return;
  if (std::holds_alternative<Token>(credentials_)) throw Error("cannot set up TLS", why);
  throw UsageError("cannot set up TLS", why, "See --tls-cert, --tls-key and --tls-ca.");
}

std::string TlsContext::mark() {
  if (plain()) return "plain";
  prepare();
  return engine_->mark();
}

std::unique_ptr<TlsSession> TlsContext::open(PeerRole role) {
  check(!plain(), "a plain connection asks for no TLS");
  prepare();
  std::unique_ptr<TlsSession> session(engine_->open(role));
  if (!session) throw std::bad_alloc();
  return session;
}

}  // namespace ddprun::rendezvous

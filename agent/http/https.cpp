#include "agent/http/https.h"

#include <new>
#include <utility>

#include "agent/process/files/renewed_files.h"
#include "rendezvous/base/error.h"
#include "rendezvous/peer/tls_module.h"

namespace ddprun::agent {
namespace {

using rendezvous::PeerRole;
using rendezvous::TlsEngine;
using rendezvous::TlsKeys;
using rendezvous::TlsSession;
using rendezvous::TlsUse;

// A session that keeps its engine.
std::shared_ptr<TlsSession> opened(const std::shared_ptr<TlsEngine>& engine, PeerRole role) {
  std::unique_ptr<TlsSession> session(engine->open(role));
  if (!session) throw std::bad_alloc();
  return {session.release(), [engine](TlsSession* ended) { delete ended; }};
}

class ServedCertificate {
 public:
  ServedCertificate(const std::string& certificate, const std::string& key, FileThread& thread,
                    std::function<void(const std::string&)> say)
      : certificate_(certificate),
        key_(key),
        files_(
            {"certificate of the metrics", {certificate, key}}, thread,
            [this](const std::vector<std::string>& texts) { return use(texts); }, std::move(say)) {
    if (const std::string why = files_.read(); !why.empty())
      throw UsageError("cannot set up TLS for the metrics", why, "See --metrics-cert and --metrics-key.");
  }

  std::shared_ptr<TlsSession> open() {
    files_.check();
    return opened(engine_, PeerRole::server);
  }

 private:
  std::string use(const std::vector<std::string>& texts) {
    std::string why;
    std::shared_ptr<TlsEngine> engine = rendezvous::make_tls_engine(
        {.use = TlsUse::https_server, .certificate = {certificate_.c_str(), texts[0]}, .key = {key_.c_str(), texts[1]}},
        why);
    if (!engine) return why;
    engine_ = std::move(engine);
    return {};
  }

  const std::string certificate_, key_;
  RenewedFiles files_;
  std::shared_ptr<TlsEngine> engine_;
};

std::shared_ptr<TlsEngine> client_engine(const std::string& host, const ClientPem& pem, std::string& why) {
  TlsKeys keys{.use = TlsUse::https_client, .host = host.c_str()};
  for (const auto& [file, text] :
       {std::pair(&keys.authority, &pem.authority), {&keys.certificate, &pem.certificate}, {&keys.key, &pem.key}})
    if (*text) *file = {(*text)->name.c_str(), (*text)->text};
  return rendezvous::make_tls_engine(keys, why);
}

}  // namespace

OpenTls https_server(const std::string& certificate, const std::string& key, FileThread& files,
                     std::function<void(const std::string& line)> say) {
  const auto served = std::make_shared<ServedCertificate>(certificate, key, files, std::move(say));
  return [served] { return served->open(); };
}

OpenTls https_client(const std::string& host, ClientPem pem) {
  return [host, pem = std::move(pem)] {
    std::string why;
    const auto engine = client_engine(host, pem, why);
    if (!engine) throw Error("cannot set up TLS", why);
    return opened(engine, PeerRole::client);
  };
}

std::string https_problem(const std::string& host, const ClientPem& pem) {
  std::string why;
  return client_engine(host, pem, why) ? "" : why;
}

}  // namespace ddprun::agent

#include "agent/http/https.h"

#include <sys/stat.h>

#include <chrono>
#include <new>
#include <utility>

#include "agent/process/regular_file.h"
#include "rendezvous/base/error.h"
#include "rendezvous/base/time.h"
#include "rendezvous/peer/tls_module.h"
#include "rendezvous/peer/token.h"

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

std::shared_ptr<TlsEngine> engine_of(const TlsKeys& keys) {
  std::string why;
  std::shared_ptr<TlsEngine> engine = rendezvous::make_tls_engine(keys, why);
  if (!engine) throw Error("cannot set up TLS", why);
  return engine;
}

constexpr std::size_t kPemMax = 1 << 20;
constexpr std::chrono::seconds kCheckEvery{1};
constexpr int kSaidAfter = 3;  // checks: a certificate and its key are not replaced at the same moment

// Changes when a file is replaced or written to.
struct Stamp {
  dev_t device = 0;
  ino_t inode = 0;
  off_t size = 0;
  std::int64_t changed_ns = 0;

  friend bool operator==(const Stamp&, const Stamp&) = default;
};

Stamp stamp_of(const std::string& file) {
  struct stat info {};
  if (stat(file.c_str(), &info) != 0) return {};
  return {info.st_dev, info.st_ino, info.st_size, info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec};
}

using Stamps = std::pair<Stamp, Stamp>;

struct CertificateFiles {
  std::string certificate, key;
};

// Texts of files that are not those of `Stamps` any more.
struct CertificateTexts {
  CertificateTexts() = default;
  CertificateTexts(CertificateTexts&&) = default;
  CertificateTexts& operator=(CertificateTexts&&) = default;
  ~CertificateTexts() { rendezvous::wipe(key); }

  Stamps stamps = {};
  std::string certificate = {}, key = {};
};

// Stamps from before the files are read: a change meanwhile is found by the next check.
CertificateTexts read_changed(const CertificateFiles& files, const Stamps& used) {
  CertificateTexts out;
  out.stamps = {stamp_of(files.certificate), stamp_of(files.key)};
  if (out.stamps == used) return out;
  out.certificate = beginning_of_file(files.certificate, kPemMax);
  out.key = beginning_of_file(files.key, kPemMax);
  return out;
}

class ServedCertificate {
 public:
  ServedCertificate(CertificateFiles from, FileThread& files, std::function<void(const std::string&)> say)
      : from_(std::move(from)), files_(files), say_(std::move(say)) {
    use(read_changed(from_, used_));
    if (!engine_) throw UsageError("cannot set up TLS for the metrics", why_, "See --metrics-cert and --metrics-key.");
  }

  std::shared_ptr<TlsSession> open() {
    const TimePoint now = Clock::now();
    if (now - checked_ >= kCheckEvery) check(now);
    return opened(engine_, PeerRole::server);
  }

 private:
  void check(TimePoint now) {
    checked_ = now;
    const auto read = [from = from_, used = used_] { return read_changed(from, used); };
    const auto texts = files_.ask("the certificate " + from_.certificate, read);
    if (!texts || texts->stamps == used_) return;
    use(*texts);
    if (texts->stamps == used_) return;
    if (++failures_ == kSaidAfter) say_("the new certificate of the metrics cannot be used: " + why_);
  }

  void use(const CertificateTexts& texts) {
    std::shared_ptr<TlsEngine> engine =
        rendezvous::make_tls_engine({.use = TlsUse::https_server,
                                     .certificate = {from_.certificate.c_str(), texts.certificate},
                                     .key = {from_.key.c_str(), texts.key}},
                                    why_);
    if (!engine) return;
    engine_ = std::move(engine);
    used_ = texts.stamps;
    failures_ = 0;
  }

  const CertificateFiles from_;
  FileThread& files_;
  const std::function<void(const std::string&)> say_;
  std::shared_ptr<TlsEngine> engine_;
  Stamps used_;
  std::string why_;
  int failures_ = 0;
  TimePoint checked_ = Clock::now();
};

}  // namespace

OpenTls https_server(const std::string& certificate, const std::string& key, FileThread& files,
                     std::function<void(const std::string& line)> say) {
  const auto served = std::make_shared<ServedCertificate>(CertificateFiles{certificate, key}, files, std::move(say));
  return [served] { return served->open(); };
}

OpenTls https_client(const std::string& host, const std::optional<NamedText>& authority,
                     const std::optional<NamedText>& certificate, const std::optional<NamedText>& key) {
  return [host, authority, certificate, key] {
    TlsKeys keys{.use = TlsUse::https_client, .host = host.c_str()};
    if (authority) keys.authority = {authority->name.c_str(), authority->text};
    if (certificate) keys.certificate = {certificate->name.c_str(), certificate->text};
    if (key) keys.key = {key->name.c_str(), key->text};
    return opened(engine_of(keys), PeerRole::client);
  };
}

}  // namespace ddprun::agent

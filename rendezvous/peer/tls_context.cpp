#include "rendezvous/peer/tls_context.h"

#include <dlfcn.h>

#include <filesystem>
#include <new>
#include <utility>

#include "rendezvous/base/error.h"

namespace ddprun::rendezvous {
namespace {

constexpr const char* kModule = "../lib/ddprun/libddprun_tls.so";  // relative to the program's folder
constexpr std::size_t kWhyMax = 1024;

MakeTlsEngine* load_module() {
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe");
  const std::filesystem::path file = (program.parent_path() / kModule).lexically_normal();
  void* module = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);  // never closed: OpenSSL cannot be unloaded
  if (!module)
    throw Error("cannot load TLS, which a token and certificates need", dlerror(),
                "Install ddprun with its lib folder, and OpenSSL 3 (Debian: libssl3).");
  auto* make = reinterpret_cast<MakeTlsEngine*>(dlsym(module, kMakeTlsEngineName));
  check(make != nullptr, "the TLS module has its one function");
  return make;
}

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
  static MakeTlsEngine* const make = load_module();
  char why[kWhyMax] = "";
  engine_.reset(make(keys_of(credentials_, run_id_), why, sizeof why));
  if (engine_) return;
  if (std::holds_alternative<Token>(credentials_)) throw Error("cannot set up TLS", why);
  throw UsageError("cannot set up TLS", why, "See --tls-cert, --tls-key and --tls-ca.");
}

std::unique_ptr<TlsSession> TlsContext::open(PeerRole role) {
  check(!plain(), "a plain connection asks for no TLS");
  prepare();
  std::unique_ptr<TlsSession> session(engine_->open(role));
  if (!session) throw std::bad_alloc();
  return session;
}

}  // namespace ddprun::rendezvous

#include "rendezvous/peer/tls_module.h"

#include <dlfcn.h>

#include <filesystem>

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
    throw Error("cannot load TLS, which a token, certificates and https need", dlerror(),
                "Install ddprun with its lib folder, and OpenSSL 3 (Debian: libssl3).");
  auto* make = reinterpret_cast<MakeTlsEngine*>(dlsym(module, kMakeTlsEngineName));
  check(make != nullptr, "the TLS module has its one function");
  return make;
}

}  // namespace

std::unique_ptr<TlsEngine> make_tls_engine(const TlsKeys& keys, std::string& why) {
  static MakeTlsEngine* const make = load_module();
  char text[kWhyMax] = "";
  std::unique_ptr<TlsEngine> engine(make(keys, text, sizeof text));
  if (!engine) why = text;
  return engine;
}

}  // namespace ddprun::rendezvous

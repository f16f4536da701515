// Loads libddprun_tls.so, with the first engine that somebody makes. It is in ../lib/ddprun, relative to the running
// program's folder.
#pragma once
#include <memory>
#include <string>

#include "rendezvous/peer/tls_plugin.h"

namespace ddprun::rendezvous {

// Empty: not available, and `why` says why. Throws Error if the module cannot be loaded.
std::unique_ptr<TlsEngine> make_tls_engine(const TlsKeys& keys, std::string& why);

}  // namespace ddprun::rendezvous

// TLS for HTTP: of a client that knows whom it talks to, and of a server whose certificate may be renewed.
//
// Both load the TLS module with the first connection (rendezvous/peer/tls_module.h). Not thread-safe.
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "agent/http/http_stream.h"
#include "agent/process/file_thread.h"

namespace ddprun::agent {

struct NamedText {
  std::string name = {};  // of its file
  std::string text = {};
};

// The server must show a certificate for `host` that one of the authorities signed; `authority` empty: the system's.
// `certificate` with its `key`: this client's own, for a server that asks for one.
// The function that it returns throws Error if the module or one of the files cannot be used.
OpenTls https_client(const std::string& host, const std::optional<NamedText>& authority,
                     const std::optional<NamedText>& certificate = {}, const std::optional<NamedText>& key = {});

// Shows the certificate of two files, with its chain, to any client. Files that have changed are read again, at most
// once a second, by `files`, which must outlive it; what cannot be used then is said by `say`, once, and the old
// certificate goes on, as it does while a file system does not answer. Throws UsageError if it cannot be used now.
OpenTls https_server(const std::string& certificate, const std::string& key, FileThread& files,
                     std::function<void(const std::string& line)> say);

}  // namespace ddprun::agent

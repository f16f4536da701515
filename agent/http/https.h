// TLS for HTTP: of a client that knows whom it talks to, and of a server whose certificate may be renewed.
//
// Both load the TLS module with the first connection (rendezvous/peer/tls_module.h). Not thread-safe.
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "agent/http/http_stream.h"
#include "agent/process/files/file_thread.h"

namespace ddprun::agent {

struct NamedText {
  std::string name = {};  // of its file
  std::string text = {};
};

// Of a client; empty: not given.
struct ClientPem {
  std::optional<NamedText> authority = {};              // who signed the server's certificate; empty: the system's
  std::optional<NamedText> certificate = {}, key = {};  // the client's own, for a server that asks for one
};

// The server must show a certificate for `host` that one of the authorities signed.
// The function that it returns throws Error if the module or one of the files cannot be used.
OpenTls https_client(const std::string& host, ClientPem pem);
// Why it would throw; empty: it would not.
std::string https_problem(const std::string& host, const ClientPem& pem);

// Shows the certificate of two files, with its chain, to any client. They may be renewed (process/renewed_files.h).
// `files` must outlive it. Throws UsageError if they cannot be used now.
OpenTls https_server(const std::string& certificate, const std::string& key, FileThread& files,
                     std::function<void(const std::string& line)> say);

}  // namespace ddprun::agent

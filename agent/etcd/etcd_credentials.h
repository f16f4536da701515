// By what a job logs in to etcd, while the files of its password and its certificates may be renewed.
//
// They are read again for a log-in and for a connection (process/renewed_files.h): what cannot be used then is said
// once, and the old one stays in use. Not thread-safe.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "agent/etcd/etcd_access.h"
#include "agent/process/files/renewed_files.h"

namespace ddprun::agent {

// The one line that the file of a password has; empty: it has none, or several.
std::string password_in(const std::string& text);

class EtcdCredentials {
 public:
  using Say = std::function<void(const std::string& sentence)>;  // without its end; from any thread
  EtcdCredentials(const EtcdAccess& access, const Say& say);
  EtcdCredentials(const EtcdCredentials&) = delete;
  EtcdCredentials& operator=(const EtcdCredentials&) = delete;

  const std::string& password();
  // For connections, which must not outlive us.
  OpenTls tls_to(const std::string& host);

 private:
  std::string use_pem(const std::vector<std::string>& texts);

  const std::string host_;  // of a member
  std::string password_;
  ClientPem pem_;
  FileThread thread_;
  std::optional<RenewedFiles> password_file_, pem_files_;  // empty: there are none that may be renewed
};

}  // namespace ddprun::agent

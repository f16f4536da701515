// How a job reaches its etcd: the members of the cluster, and by which right.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "agent/http/http_url.h"
#include "agent/http/https.h"
#include "rendezvous/base/time.h"

namespace ddprun::agent {

struct EtcdAccess {
  std::vector<HttpUrl> members = {};  // tried in turn; without a target
  std::string prefix = "/ddprun";     // of all keys; no '/' at its end
  std::string user = {};              // empty: etcd asks for none
  // As they were at the start: their files may be renewed (etcd_credentials.h).
  NamedText password = {};  // one line; without a name: from no file
  ClientPem pem = {};
  // A round of which nobody has heard from any node for so long is taken for dead.
  Duration silent_round = std::chrono::seconds(120);
  // How long the record of a job that may start again is kept after its last write.
  std::chrono::seconds keep = std::chrono::hours(7 * 24);
};

}  // namespace ddprun::agent

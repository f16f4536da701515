// Where a node answers over HTTP (--metrics).
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "rendezvous/peer/token.h"

namespace ddprun::agent {

struct MetricsOptions {
  std::string address = {};                     // numeric
  std::uint16_t port = 0;                       // 0: any free one
  std::optional<rendezvous::Token> token = {};  // that a client must show; empty: none
  bool page = false;                            // serve the job's page, too
  std::string certificate = {}, key = {};       // their files, for https; empty: http
};

}  // namespace ddprun::agent

// A job of other machines: asks the agent at an endpoint, or the coordinator that etcd names, with the job's token or
// certificates.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "launcher/config/config.h"
#include "rendezvous/peer/control_address.h"

namespace ddprun::launcher {

// What such words and the environment say. Throws JobRefused.
Config config_of_access(std::vector<std::string> words, const std::string& run_id);

class RemoteJob {
 public:
  // `words`: options of ddprun that say where and by which right, such as --rdzv-endpoint and --token-file; the
  // environment may hold the token, too. `run_id`: the job's --rdzv-id; empty: it has none. Throws JobRefused, and
  // Error where etcd does not answer.
  RemoteJob(std::vector<std::string> words, const std::string& run_id);
  // The answer to `line`. Throws Error where no agent answers within ten seconds.
  std::string ask(const std::string& line);

 private:
  std::optional<std::string> ask_at_places(const std::string& line, std::string& why) const;

  Config config_;
  std::vector<rendezvous::ControlAddress> places_;
};

}  // namespace ddprun::launcher

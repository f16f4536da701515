// A job of other machines: asks the agent at an endpoint, with the job's token or certificates.
#pragma once
#include <string>
#include <vector>

#include "launcher/config.h"

namespace ddprun::launcher {

class RemoteJob {
 public:
  // `words`: options of ddprun that say where and by which right, such as --rdzv-endpoint and --token-file; the
  // environment may hold the token, too. `run_id`: the job's --rdzv-id; empty: it has none. Throws JobRefused.
  RemoteJob(std::vector<std::string> words, const std::string& run_id);
  // The answer to `line`. Throws Error where no agent answers within ten seconds.
  std::string ask(const std::string& line) const;

 private:
  Config config_;
};

}  // namespace ddprun::launcher

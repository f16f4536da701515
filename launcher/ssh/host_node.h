// `ddprun ssh-node`: speaks for one host of a job (message.h), on stdin and stdout, to whoever started it by ssh.
//
// It checks whether the job can run here, starts the agent when all hosts are ready, passes on its output, and reaches
// the hosts of its branch. Without a message for kContactLimit, or when stdin ends, it ends the agent: SIGTERM, and
// SIGKILL once --stop-grace is over; so nothing is left of a job whose head was killed or cut off.
#pragma once
#include <functional>
#include <string>
#include <vector>

namespace ddprun::launcher {

struct NodeQuestion {
  std::vector<std::string> words = {};  // of the agent, without its own name
  std::string config_name = {}, config_text = {};
};

// `check`: sentences about what prevents the job here. `version`: ddprun's. Returns the exit code.
int run_host_node(const std::string& version,
                  const std::function<std::vector<std::string>(const NodeQuestion&)>& check);

}  // namespace ddprun::launcher

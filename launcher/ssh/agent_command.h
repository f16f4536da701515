// The command line of the agent on one host of a job. Pure.
#pragma once
#include <string>
#include <vector>

#include "launcher/ssh/message.h"

namespace ddprun::launcher {

// What a host checks before all have met: as the agent will get it, with an address in place of the one still unknown.
std::vector<std::string> words_to_check(const HostJobOrder& order);
// ddprun's words without its own name. `config`: the path under which the agent reads the configuration file.
std::vector<std::string> agent_words(const HostJobOrder& order, const StartAgents& start, const std::string& config);

// "10.0.0.1 50000 10.0.0.2 22", as sshd sets SSH_CONNECTION.
struct SshAddresses {
  std::string client = {}, server = {};
};
SshAddresses ssh_addresses(const std::string& connection);

}  // namespace ddprun::launcher

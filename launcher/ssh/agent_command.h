// The command line of the agent on one host of a job. Pure.
#pragma once
#include <string>
#include <vector>

#include "launcher/ssh/message.h"

namespace ddprun::launcher {

// What a host checks before all have met: as the agent will get it, with an address in place of the one still unknown.
std::vector<std::string> words_to_check(const HostJobOrder& order);
// Under which the agent finds what comes from the head, and what goes there.
struct AgentPaths {
  std::string config, events;
};
// ddprun's words without its own name.
std::vector<std::string> agent_words(const HostJobOrder& order, const StartAgents& start, const AgentPaths& paths);

// "10.0.0.1 50000 10.0.0.2 22", as sshd sets SSH_CONNECTION.
struct SshAddresses {
  std::string client = {}, server = {};
};
SshAddresses ssh_addresses(const std::string& connection);

}  // namespace ddprun::launcher

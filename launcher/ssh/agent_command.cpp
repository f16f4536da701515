#include "launcher/ssh/agent_command.h"

#include <sstream>

namespace ddprun::launcher {
namespace {

std::vector<std::string> words_of(const HostJobOrder& order, const std::string& config,
                                  const std::vector<std::string>& more) {
  std::vector<std::string> words = order.options;
  if (!order.config_name.empty()) words.push_back("--config=" + config);
  if (const auto workers = order.hosts.front().workers) words.push_back("--nproc-per-node=" + std::to_string(*workers));
  words.insert(words.end(), more.begin(), more.end());
  words.emplace_back("--");
  words.insert(words.end(), order.program.begin(), order.program.end());
  return words;
}

}  // namespace

std::vector<std::string> words_to_check(const HostJobOrder& order) {
  return words_of(order, order.config_name, {"--nnodes=1"});
}

std::vector<std::string> agent_words(const HostJobOrder& order, const StartAgents& start, const AgentPaths& paths) {
  std::vector<std::string> more = start.options;
  if (order.sends_events) more.push_back("--event-log-handler=file:" + paths.events);
  more.push_back("--node-rank=" + std::to_string(start.ranks.at(order.hosts.front().index)));
  return words_of(order, paths.config, more);
}

SshAddresses ssh_addresses(const std::string& connection) {
  std::istringstream words(connection);
  SshAddresses out;
  std::string port;
  if (!(words >> out.client >> port >> out.server)) return {};
  return out;
}

}  // namespace ddprun::launcher

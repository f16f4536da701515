#include "agent/status/asked_stacks.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace ddprun::agent {
namespace {

constexpr std::chrono::seconds kNodesLimit{10};

}  // namespace

int AskedStacks::begin(AgentSocket::Reply reply) {
  const int serial = ++last_;
  Request& request = requests_[serial];
  request.reply = std::move(reply);
  request.timer = std::make_unique<asio::steady_timer>(io_, kNodesLimit);
  request.timer->async_wait([this, serial](const std::error_code& error) {
    if (!error) answer(serial);
  });
  return serial;
}

void AskedStacks::take(int serial, int nodes, std::string text) {
  const auto found = requests_.find(serial);
  if (found == requests_.end()) return;
  Request& request = found->second;
  request.round_runs = nodes > 0;
  request.nodes = std::max(request.nodes, nodes);
  if (!text.empty()) request.texts.push_back(std::move(text));
  if (static_cast<int>(request.texts.size()) >= request.nodes) answer(serial);
}

void AskedStacks::answer(int serial) {
  auto request = requests_.extract(serial);
  if (request.empty()) return;  // its timer expired as the last answer came
  std::vector<std::string>& texts = request.mapped().texts;
  std::sort(texts.begin(), texts.end());
  std::string out;
  for (const std::string& text : texts) out += text;
  const int missing = request.mapped().nodes - static_cast<int>(texts.size());
  if (texts.empty()) out = request.mapped().round_runs ? "No node has answered in time.\n" : "No workers run now.\n";
  if (missing > 0)
    out += std::to_string(missing) + " of " + std::to_string(request.mapped().nodes) +
           " nodes have not answered in time.\n";
  request.mapped().reply(out);
}

}  // namespace ddprun::agent

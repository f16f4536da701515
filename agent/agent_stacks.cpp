// Stacks that somebody asks for by `ddprun stacks`: of all workers of all nodes, without stopping anything.
#include <unistd.h>

#include <algorithm>

#include "agent/agent.h"

namespace ddprun::agent {
namespace {

constexpr std::chrono::seconds kAskedLimit{8};

// All nodes' texts pass through the coordinator's one connection to the asker.
constexpr std::size_t kAllNodesMax = 8 << 20;

std::string cut(std::string text, int nodes) {
  const std::size_t share = kAllNodesMax / static_cast<std::size_t>(std::max(nodes, 1));
  const std::size_t most = std::min(share, rendezvous::kStacksTextMax) - 64;
  if (text.size() > most) text = text.substr(0, text.rfind('\n', most)) + "\n... (cut)\n";
  return text;
}

}  // namespace

void Agent::open_stacks_socket() {
  stacks_socket_.emplace(io_, StacksAddress{geteuid(), getpid(), options_.command.job.run_id},
                         [this](const StacksSocket::Reply& reply) {
                           if (!contact_.coordination().connected())
                             return reply("The coordinator is out of reach now.\n");
                           const int serial = asked_stacks_.begin(reply);
                           contact_.send(rendezvous::StacksWanted{node(), serial});
                         });
}

void Agent::take_asked_stacks(const rendezvous::TakeStacks& asked) {
  if (!seat_) return;
  look_at_workers();
  std::vector<pid_t> pids;
  std::vector<std::string> headings;
  for (const rendezvous::Standing& one : standings()) {
    if (one.activity == rendezvous::Activity::ended) continue;
    const pid_t pid = workers_.records().at(one.rank - seat_->first_rank).pid;
    pids.push_back(pid);
    headings.push_back("rank " + std::to_string(one.rank) + " on " + options_.logs.host + ", process " +
                       std::to_string(pid) + ": " + in_words(one) + "\n");
  }
  const auto send = [this, asked, headings](const std::vector<ProcessStacks>& stacks) {
    std::string text;
    for (std::size_t i = 0; i < headings.size(); ++i) text += headings[i] + to_text(stacks[i]) + "\n";
    if (headings.empty()) text = "no worker runs on " + options_.logs.host + "\n\n";
    contact_.send(
        rendezvous::StacksTaken{node(), asked.asker, asked.serial, cut(std::move(text), seat_->group_world_size)});
  };
  if (pids.empty()) return send({});
  stacks_->take(pids, kAskedLimit, send);
}

}  // namespace ddprun::agent

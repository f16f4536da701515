#include "agent/status/asked_status.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace ddprun::agent {
namespace {

constexpr std::chrono::seconds kStatusLimit{2};

bool has_report(const StatusAnswer& answer, const rendezvous::NodeView& node) {
  return std::any_of(answer.nodes.begin(), answer.nodes.end(),
                     [&](const rendezvous::NodeReport& one) { return one.group_rank == node.group_rank; });
}

}  // namespace

int AskedStatus::begin(Reply reply, bool job_only) {
  const int serial = ++last_;
  Request& request = requests_[serial];
  request.reply = std::move(reply);
  request.job_only = job_only;
  request.timer = std::make_unique<asio::steady_timer>(io_, kStatusLimit);
  request.timer->async_wait([this, serial](const std::error_code& error) {
    if (!error) answer(serial);
  });
  return serial;
}

void AskedStatus::take(const rendezvous::JobStatus& status) {
  const auto found = requests_.find(status.serial);
  if (found == requests_.end()) return;
  found->second.answer.job = status.view;
  if (is_complete(found->second)) answer(status.serial);
}

void AskedStatus::take(const rendezvous::StatusOfNode& status) {
  const auto found = requests_.find(status.serial);
  if (found == requests_.end()) return;
  found->second.answer.nodes.push_back(status.report);
  if (is_complete(found->second)) answer(status.serial);
}

// As many nodes as the round has; their names are compared only once it is known who is missing.
bool AskedStatus::is_complete(const Request& request) {
  const StatusAnswer& answer = request.answer;
  if (!answer.job) return false;
  if (request.job_only) return true;
  const auto in_round = std::count_if(answer.job->nodes.begin(), answer.job->nodes.end(),
                                      [](const auto& node) { return node.group_rank >= 0; });
  return static_cast<std::ptrdiff_t>(answer.nodes.size()) >= in_round;
}

void AskedStatus::answer(int serial) {
  auto request = requests_.extract(serial);
  if (request.empty()) return;  // its timer expired as the last answer came
  StatusAnswer& answer = request.mapped().answer;
  std::sort(answer.nodes.begin(), answer.nodes.end(),
            [](const auto& a, const auto& b) { return a.group_rank < b.group_rank; });
  if (!answer.job) answer.problem = "the coordinator has not answered within 2 s";
  if (answer.job && !is_complete(request.mapped()))
    for (const rendezvous::NodeView& node : answer.job->nodes)
      if (node.group_rank >= 0 && !has_report(answer, node)) answer.silent.push_back(node.name);
  request.mapped().reply(std::move(answer));
}

}  // namespace ddprun::agent

#include "agent/status/open_questions.h"

#include <algorithm>
#include <utility>

namespace ddprun::agent {
namespace {

bool has_report(const StatusAnswer& answer, const rendezvous::NodeView& node) {
  return std::any_of(answer.nodes.begin(), answer.nodes.end(),
                     [&](const rendezvous::NodeReport& one) { return one.group_rank == node.group_rank; });
}

}  // namespace

int OpenQuestions::begin(Duration limit, Take take, std::function<void()> end) {
  const int serial = ++last_;
  Question& question = open_[serial];
  question = {std::move(take), std::move(end), std::make_unique<asio::steady_timer>(io_, limit)};
  question.timer->async_wait([this, serial](const std::error_code& error) {
    if (!error) this->end(serial);
  });
  return serial;
}

void OpenQuestions::take(const rendezvous::JobReply& reply) {
  const auto found = open_.find(reply.serial);
  if (found != open_.end() && found->second.take(reply)) end(reply.serial);
}

void OpenQuestions::end(int serial) {
  const auto question = open_.extract(serial);
  if (!question.empty()) question.mapped().end();  // else its timer expired as the last reply came
}

bool StatusReplies::take(const rendezvous::JobReply& reply) {
  if (const auto* view = std::get_if<rendezvous::JobView>(&reply.answer)) answer_.job = *view;
  if (const auto* report = std::get_if<rendezvous::NodeReport>(&reply.answer)) answer_.nodes.push_back(*report);
  return is_complete();
}

// As many nodes as the round has; their names are compared only once it is known who is missing.
bool StatusReplies::is_complete() const {
  if (!answer_.job) return false;
  if (job_only_) return true;
  const auto in_round = std::count_if(answer_.job->nodes.begin(), answer_.job->nodes.end(),
                                      [](const auto& node) { return node.group_rank >= 0; });
  return static_cast<std::ptrdiff_t>(answer_.nodes.size()) >= in_round;
}

StatusAnswer StatusReplies::result() && {
  std::sort(answer_.nodes.begin(), answer_.nodes.end(),
            [](const auto& a, const auto& b) { return a.group_rank < b.group_rank; });
  if (!answer_.job) answer_.problem = "the coordinator has not answered within 2 s";
  if (answer_.job && !is_complete())
    for (const rendezvous::NodeView& node : answer_.job->nodes)
      if (node.group_rank >= 0 && !has_report(answer_, node)) answer_.silent.push_back(node.name);
  return std::move(answer_);
}

bool StacksReplies::take(const rendezvous::JobReply& reply) {
  const auto* stacks = std::get_if<rendezvous::StacksText>(&reply.answer);
  if (!stacks) return false;
  round_runs_ = reply.nodes > 0;
  nodes_ = std::max(nodes_, reply.nodes);
  if (!stacks->text.empty()) texts_.push_back(stacks->text);
  return static_cast<int>(texts_.size()) >= nodes_;
}

std::string StacksReplies::result() && {
  std::sort(texts_.begin(), texts_.end());
  std::string out;
  for (const std::string& text : texts_) out += text;
  const int missing = nodes_ - static_cast<int>(texts_.size());
  if (texts_.empty()) out = round_runs_ ? "No node has answered in time.\n" : "No workers run now.\n";
  if (missing > 0)
    out += std::to_string(missing) + " of " + std::to_string(nodes_) + " nodes have not answered in time.\n";
  return out;
}

}  // namespace ddprun::agent

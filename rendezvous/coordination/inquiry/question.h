// What a user asks of a running job by way of one of its agents, and the answers.
//
// The asking agent counts its questions (serial). The coordinator answers what it knows, and passes a question on to
// the nodes that know the rest; their answers go back through it. The messages (Asked, AskNodes, Answered and JobReply
// in coordinator.h) are the same for all questions: a new one is one more type in Question, and in the answers.
#pragma once
#include <cstddef>
#include <string>
#include <variant>

#include "rendezvous/coordination/inquiry/act.h"
#include "rendezvous/coordination/inquiry/job_view.h"

namespace ddprun::rendezvous {

struct AskStacks {};        // of all workers of the round: StacksText of each node
struct AskStatus {          // the coordinator's JobView, and NodeReport of each node of the round
  bool job_only = false;    // not of the nodes
  bool last_lines = false;  // of the workers' output
};
struct AskRank {  // RankText of the node that runs it, or has run it in the last round
  int rank = 0;
  std::string question = {};  // at most kQuestionMax bytes
};
using Question = std::variant<AskStacks, AskStatus, AskRank, Act>;  // of an act: ActResult of the coordinator
constexpr std::size_t kQuestionMax = 1024;

struct StacksText {
  std::string text = {};  // at most kStacksTextMax bytes; empty: no round is under way
};
struct RankText {
  std::string text = {};  // at most kRankTextMax bytes; empty: no node of it runs that rank
  int world_size = 0;     // then: of the newest round; 0: there is none
};
constexpr std::size_t kStacksTextMax = 1 << 20, kRankTextMax = std::size_t{512} * 1024;
using NodeAnswer = std::variant<StacksText, NodeReport, RankText>;
using JobAnswer = std::variant<StacksText, NodeReport, RankText, JobView, ActResult>;

}  // namespace ddprun::rendezvous

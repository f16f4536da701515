// Questions to the job (rendezvous/coordination/inquiry/question.h) that were asked here and are not answered in full.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include "agent/status/job_summary.h"
#include "rendezvous/coordination/coordinator.h"

namespace ddprun::agent {

// For the thread of the io_context.
class OpenQuestions {
 public:
  using Take = std::function<bool(const rendezvous::JobReply&)>;  // true: that was the last one
  explicit OpenQuestions(asio::io_context& io) : io_(io) {}

  // The number of the new question. `end` is called once: after the last reply, or after `limit` without it.
  int begin(Duration limit, Take take, std::function<void()> end);
  // One to a question that is not open is nobody's.
  void take(const rendezvous::JobReply& reply);

 private:
  struct Question {
    Take take;
    std::function<void()> end;
    std::unique_ptr<asio::steady_timer> timer;
  };
  void end(int serial);

  asio::io_context& io_;
  std::map<int, Question> open_;
  int last_ = 0;
};

// What the replies to one question say together.

// To AskStatus: `job`, `nodes`, `silent` and `problem` of it.
class StatusReplies {
 public:
  explicit StatusReplies(bool job_only = false) : job_only_(job_only) {}
  bool take(const rendezvous::JobReply& reply);
  StatusAnswer result() &&;

 private:
  bool is_complete() const;
  bool job_only_;
  StatusAnswer answer_ = {};
};

// To AskStacks.
class StacksReplies {
 public:
  bool take(const rendezvous::JobReply& reply);
  std::string result() &&;

 private:
  int nodes_ = 0;
  bool round_runs_ = true;
  std::vector<std::string> texts_ = {};
};

// To a question that has one answer.
template <class Answer>
class OneReply {
 public:
  // `late`: what is said without it.
  explicit OneReply(Answer late) : answer_(std::move(late)) {}
  bool take(const rendezvous::JobReply& reply) {
    const auto* answer = std::get_if<Answer>(&reply.answer);
    if (answer) answer_ = *answer;
    return answer != nullptr;
  }
  Answer result() && { return std::move(answer_); }

 private:
  Answer answer_;
};

}  // namespace ddprun::agent

// Requests for the job's status that are not answered yet.
#pragma once
#include <functional>
#include <map>
#include <memory>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include "agent/status/job_summary.h"
#include "rendezvous/coordination/coordinator.h"

namespace ddprun::agent {

class AskedStatus {
 public:
  // What was told so far is in it: `job`, `nodes`, `silent` and `problem`.
  using Reply = std::function<void(StatusAnswer)>;
  explicit AskedStatus(asio::io_context& io) : io_(io) {}

  // The number of the new request. After two seconds it is answered with what has come. `job_only`: no node is asked.
  int begin(Reply reply, bool job_only = false);
  void take(const rendezvous::JobStatus& status);
  void take(const rendezvous::StatusOfNode& status);

 private:
  struct Request {
    Reply reply;
    std::unique_ptr<asio::steady_timer> timer;
    bool job_only = false;
    StatusAnswer answer = {};
  };
  static bool is_complete(const Request& request);
  void answer(int serial);

  asio::io_context& io_;
  std::map<int, Request> requests_;
  int last_ = 0;
};

}  // namespace ddprun::agent

// --page: the job's page for browsers, at / of the metrics' port. Its history is kept for as long as the job runs; the
// coordinator is asked for the job's status once a second while a page is open, and every ten seconds otherwise.
//
// For the thread of the io_context.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <nlohmann/json_fwd.hpp>

#include "agent/http/http_server.h"
#include "agent/status/job_history.h"
#include "rendezvous/base/time.h"
#include "rendezvous/coordination/control_message.h"
#include "rendezvous/coordination/round.h"

namespace ddprun::agent {

// The page itself, which shows what /live tells it.
HttpResponse page_document();

class JobPage {
 public:
  // Calls back with the job's status as JSON, now or later. `lines`: with the last lines of the workers' output.
  using AskStatus = std::function<void(bool lines, const std::function<void(const nlohmann::json&)>&)>;
  // `server` answers the browsers, and must outlive it.
  JobPage(asio::io_context& io, HttpServer& server, AskStatus ask_status);

  void start();
  // A page was opened: it gets the whole history with the next look, which is now.
  void open(const HttpServer::Answer& answer);
  void round_formed(int round);
  void round_ended(const rendezvous::EndRound& end);
  void job_ended(const rendezvous::Outcome& outcome);  // the last that pages are told

 private:
  void look();
  void tell(const nlohmann::json& answered);

  HttpServer& server_;
  const AskStatus ask_status_;
  asio::steady_timer timer_;
  JobHistory history_;
  std::vector<HttpServer::Answer> openers_;  // wait for their first event
  bool asked_ = false;                       // the status, and the answer has not come
  std::string key_;                          // of what was told last
  int rounds_told_ = 0;                      // JobHistory::rounds_changed()
  TimePoint told_at_ = {};
  std::string end_;  // the event of the job's end; empty: it goes on
};

}  // namespace ddprun::agent

// --page: the job's page for browsers, at / of the metrics' port. The coordinator is asked for the job's status once a
// second while a page is open, and otherwise every ten seconds and when a round is formed.
//
// For the thread of the io_context.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <nlohmann/json_fwd.hpp>

#include "agent/desk/history_keeper.h"
#include "agent/http/http_server.h"
#include "rendezvous/base/time.h"
#include "rendezvous/coordination/round/round.h"
#include "rendezvous/coordination/wire/control_message.h"

namespace ddprun::agent {

// The page itself, which shows what /live tells it.
HttpResponse page_document();

class JobPage {
 public:
  // Calls back with the job's status as JSON, now or later. `lines`: with the last lines of the workers' output.
  using AskStatus = std::function<void(bool lines, const std::function<void(const nlohmann::json&)>&)>;
  // `server` answers the browsers; it and `history` must outlive it.
  JobPage(asio::io_context& io, HttpServer& server, HistoryKeeper& history, AskStatus ask_status);

  void start();
  // A page was opened: it gets the whole history with the next look, which is now.
  void open(const HttpServer::Answer& answer);
  bool is_open() const { return server_.streams() > 0 || !openers_.empty(); }
  void round_formed();
  void job_ended(const rendezvous::Outcome& outcome);  // the last that pages are told

 private:
  void look();
  void tell(const nlohmann::json& answered);

  HttpServer& server_;
  HistoryKeeper& history_;
  const AskStatus ask_status_;
  asio::steady_timer timer_;
  std::vector<HttpServer::Answer> openers_;  // wait for their first event
  bool asked_ = false;                       // the status, and the answer has not come
  std::string key_;                          // of what was told last
  int changes_told_ = 0;                     // JobHistory::changes()
  TimePoint told_at_ = {}, rounds_told_at_ = {};
  std::string end_;  // the event of the job's end; empty: it goes on
};

}  // namespace ddprun::agent

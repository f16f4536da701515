// Who asks about the job is answered here: `ddprun status`, `stacks` and `ctl` at the agent's socket, and whoever reads
// the HTTP port of --metrics. What other nodes know is asked of the coordinator. It also pushes what nobody asks for.
//
// For the thread of the io_context; hooks are called there.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <asio/io_context.hpp>
#include <nlohmann/json_fwd.hpp>

#include "agent/desk/history_keeper.h"
#include "agent/desk/job_page.h"
#include "agent/desk/job_pushes.h"
#include "agent/desk/last_output.h"
#include "agent/desk/metrics_options.h"
#include "agent/desk/node_view.h"
#include "agent/desk/rank_output.h"
#include "agent/hang/hang_watch.h"
#include "agent/http/http_server.h"
#include "agent/process/files/file_thread.h"
#include "agent/status/act_request.h"
#include "agent/status/agent_socket.h"
#include "agent/status/job_measures.h"
#include "agent/status/metrics_text.h"
#include "agent/status/open_questions.h"
#include "rendezvous/coordination/wire/control_message.h"

namespace ddprun::agent {

struct DeskOptions {
  std::string program = {};
  std::optional<MetricsOptions> metrics = {};
  PushOptions push = {};                          // whose names of job, host and version are the desk's as well
  std::shared_ptr<const KeptOutput> output = {};  // of the workers here; null: none is known
};

class Desk {
 public:
  // What this node does.
  struct NodeState {
    std::optional<int> running_round = {};  // of which no end was decided
    std::string name = {};                  // in words
    bool succeeded = false;                 // the job has ended well
    bool over = false;                      // it has ended, however, and so have the workers here
  };
  struct Hooks {
    std::function<std::optional<rendezvous::NodeId>()> node;  // ours; empty: the coordinator is out of reach now
    std::function<void(const rendezvous::FromAgent&)> send;
    std::function<NodeState()> state;
    std::function<void(JobMeasures&)> measure;  // adds what others here count
    std::function<void(const std::string& sentence)> say;
    NodeView::Hooks view;
    LastOutput::Passed passed;
    RankOutput::Complete complete_output;
  };
  // Throws Error if the port of --metrics cannot be opened.
  Desk(asio::io_context& io, DeskOptions options, Hooks hooks);

  void open_socket();
  std::optional<std::uint16_t> http_port() const;
  void start_page();
  void start_pushes() { pushes_.start(); }
  // At the socket, or by the coordinator's authenticated connections.
  void on_request(const AgentSocket::Request& request, const AgentSocket::Reply& reply);
  // What the coordinator asks of this node for those who ask elsewhere, and its answers to those who asked here.
  void on_message(const rendezvous::AskNodes& m);
  void on_message(const rendezvous::JobReply& m) { questions_.take(m); }

  // What happens on this node, for those who read of it.
  void waits_for_round(TimePoint now);
  void round_formed(const rendezvous::Seat& seat);
  void pace_changed(const rendezvous::ReportPace& report);
  void workers_start(TimePoint now);
  void workers_run(TimePoint now);  // all of them
  void looked(const std::map<int, WorkerSight>& seen);
  // Before anybody learns of it.
  void worker_ended(int round, int rank) { rank_output_.worker_ended(round, rank); }
  void failed(rendezvous::FailureClass kind);
  void time_spent(const rendezvous::RoundSpent& spent);  // by a round that has ended here
  // `ours`: this node has a seat in it.
  void round_ended(const rendezvous::EndRound& end, bool ours);
  void measured(const std::string& metric, double value) { pushes_.measured(metric, value); }
  void job_ended(const rendezvous::Outcome& outcome);
  // The last values; then calls `done`.
  void push_last(const std::function<void()>& done) { pushes_.push_last(done); }

 private:
  using TakeMetrics = std::function<void(const MetricsValues&)>;
  using TakeStatus = std::function<void(const nlohmann::json&)>;
  void open_http();
  void on_http(const HttpRequest& request, const HttpServer::Answer& answer);
  // `take` gets the result of `replies` once they are complete, or `limit` is over.
  template <class Replies, class Take>
  void ask(rendezvous::NodeId node, rendezvous::Question question, Duration limit, Replies replies, Take take);
  void read_output(const std::string& line, const std::function<void(rendezvous::NodeAnswer)>& send);
  void ask_for_output(const LogRequest& request, const AgentSocket::Reply& reply);
  void ask_for_stacks(const AgentSocket::Reply& reply);
  void ask_for_status(bool lines, const TakeStatus& take);
  void tell_own_report(StatusAnswer answer, bool lines, const TakeStatus& take);
  void ask_for_act(const AgentSocket::Request& request, const AgentSocket::Reply& reply);
  void add_self(StatusAnswer& answer) const;
  void collect_metrics(TakeMetrics take);
  void hand_out_metrics(StatusAnswer status);
  std::optional<JobMeasures> measures_now();
  JobPushes::Hooks push_hooks();

  asio::io_context& io_;
  const DeskOptions options_;
  const NodeView view_;
  LastOutput last_output_;
  RankOutput rank_output_;
  const Hooks hooks_;
  FileThread files_;  // reads certificates and tokens, which may be renewed
  const TimePoint started_ = Clock::now();
  std::optional<AgentSocket> socket_;
  OpenQuestions questions_;
  std::optional<HttpServer> http_;
  HistoryKeeper history_;
  std::optional<JobPage> page_;
  std::vector<TakeMetrics> want_metrics_;  // wait for the coordinator's answer
  std::optional<JobMeasures> measures_;    // for metrics that somebody reads
  std::optional<std::uint64_t> oom_kills_at_start_;
  std::optional<TimePoint> workers_run_since_;
  JobPushes pushes_;
};

// A message that is the desk's.
template <class Message>
concept ForDesk = requires(Desk& desk, const Message& m) {
  desk.on_message(m);
};

}  // namespace ddprun::agent

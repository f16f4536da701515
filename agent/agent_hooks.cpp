// Who is asked and told what by which part.
#include <algorithm>
#include <csignal>
#include <utility>

#include "agent/agent.h"
#include "agent/process/job_cookie.h"

namespace ddprun::agent {
namespace {

MachineOptions machine_options(const AgentOptions& options) {
  const Environment own{{kCookieVariable, options.command.job.cookie}};
  return {options.machine_limits, options.folders, options.health_check, options.probe,
          merged(options.command.inherited, own)};
}

constexpr std::chrono::milliseconds kLastOutputLimit{50};  // what it has left behind may hold its streams

bool is_running(const WorkerRecord& worker) { return worker.pid != 0 && !worker.status; }

LogLevel level_of(const Event& event) { return std::holds_alternative<Tick>(event) ? LogLevel::debug : LogLevel::info; }

}  // namespace

Agent::Agent(AgentOptions options, const rendezvous::RoundPolicy& policy)
    : options_(std::move(options)),
      outside_(io_, signals_of(options_), options_.keeper_fd),
      machine_(io_, machine_options(options_), machine_hooks()),
      layout_(options_.logs, options_.command.job.run_id),
      round_(io_, options_, {options_.logs, layout_, pipes_}, round_hooks()),
      tell_(io_, pipes_, layout_, round_.workers(), tell_options(options_),
            [this]() -> Coordination& { return contact_.coordination(); }),
      supervision_(io_, options_.stop, supervision_hooks()),
      contact_(io_, policy, contact_options(options_), pipes_, round_.workers().fence(), contact_hooks()),
      watches_(io_, {options_.hang_limits, options_.watch_stragglers, options_.logs.monitor}, watch_hooks()),
      faults_(io_, options_.allow_chaos, fault_hooks()),
      desk_(io_, desk_options(options_), desk_hooks()) {
  options_.several_nodes = options_.meeting.has_value();
  std::signal(SIGPIPE, SIG_IGN);
}

Outside::Hooks Agent::outside_hooks() {
  return {[this](int signal, bool from_terminal) { on_signal(signal, from_terminal); },
          [this] {
            tell_.reporter().run_is_over(*options_.max_run);
            dispatch(Signalled{SIGTERM});
          },
          [this] {
            round_.timers().close();
            layout_.clean_up(false);
          }};
}

MachineWatch::Hooks Agent::machine_hooks() {
  return {[this](const std::string& why) { on_preempted(why); }, [this] { on_health(); },
          [this](const std::string& sentence) { tell_.say(sentence); }, [this] { collect_workers(); }};
}

NodeRound::Hooks Agent::round_hooks() {
  return {[this](int local_rank, int error) { return on_started(local_rank, error); },
          [this] {
            tell_.reporter().workers_run();
            desk_.workers_run(*round_.workers_run_since());
            watches_.workers_run(*round_.seat(), *round_.workers_run_since());
          },
          [this] { collect_workers(); },
          [this](const WorkerEnd& end) {
            if (is_ctrl_c(end)) return;  // no failure: collect_workers() tells of it
            dispatch(WorkerDying{round_.seat()->round, end.local_rank, end.status});
          },
          [this](int local_rank, int signal) { on_notice(local_rank, signal); },
          [this](int round) { dispatch(Swept{round}); },
          [this] { on_template(); },
          [this](const std::string& sentence) { tell_.say(sentence); },
          {[this](const std::string& sentence) { tell_.say(sentence); },
           [this](int local_rank, const ExpiredTimer& timer) {  // it has failed, whatever the signal does to it
             tell_.timer_expired(local_rank, timer);
             dispatch(WorkerDying{round_.seat()->round, local_rank, {.signal = timer.signal}});
           },
           [this](int round, int local_rank) {
             dispatch(WorkerDying{round, local_rank, {.stuck = true}});
           },
           [this](int round) { return supervision_.now().round_with_workers() == round; }},
          {[this](const std::string& sentence) { tell_.say(sentence); },
           [this](int round, const std::string& why) {
             if (running_round() == round) tell_.say("the round's store is unreachable: " + why);
           }},
          {[this](const rendezvous::ControlAddress& agent, NodeCopies::LinkHooks hooks) {
             return contact_.coordination().dial_copies(agent, std::move(hooks));
           },
           [this](int round) {
             send(rendezvous::NodeConfirmed{node(), round});
           },
           [this](const std::string& line) { pipes_.print(line); },
           [this](const std::string& why) { tell_.reporter().no_snapshot_memory(why); }}};
}

Supervision::Hooks Agent::supervision_hooks() {
  return {[this](const Event& event) { tell_.log(level_of(event), "event ", event); },
          [this](const Action& action) {
            tell_.log(LogLevel::info, "action", action);
            execute(action);
          }};
}

Contact::Hooks Agent::contact_hooks() {
  Contact::Hooks hooks{
      [this] { on_connected(); },
      [this](const rendezvous::ToAgent& message) { on_message(message); },
      [this] { dispatch(Isolated{}); },
      [this](const rendezvous::Outcome& outcome) { dispatch(JobEnded{outcome}); },
      [this](const std::string& line, const AgentSocket::Reply& reply) { desk_.on_request({line}, reply); },
      [this] { return supervision_.now().round_with_workers().has_value(); },
      [this] {
        const Supervisor& now = supervision_.now();
        return now.round_with_workers() && !now.held_by_kernel();
      },
      [this](const std::string& why) { tell_.log("the coordinator is unreachable: " + why); },
      [this](const std::string& host, const std::string& option) { tell_.reporter().only_here(host, option); },
      tell_.ledger_hook(),
      {}};
  if (options_.memory_snapshots != 0)
    hooks.on_copies = [this](rendezvous::ReleasedPeer peer) { round_.memory().add_caller(std::move(peer)); };
  return hooks;
}

RoundWatches::Hooks Agent::watch_hooks() {
  RoundWatches::Hooks hooks{
      {[this] {
         std::map<int, pid_t> running;
         for (const auto& [local_rank, worker] : round_.workers().records())
           if (is_running(worker)) running.emplace(local_rank, worker.pid);
         return running;
       },
       [this] {
         std::vector<int> ended;
         for (const auto& [local_rank, worker] : round_.workers().records())
           if (worker.status && worker.status->ok()) ended.push_back(local_rank);
         return ended;
       },
       [this](int local_rank) { return round_.workers().channels().progress(local_rank, Clock::now()); },
       [this](int signal) { round_.workers().signal_groups(signal); },
       [this](int local_rank) { return round_.workers().record_path(local_rank); }},
      {[this] { return running_round(); },
       [this](std::vector<rendezvous::Standing> all) {
         send(rendezvous::NodeStandings{node(), round_.seat()->round, std::move(all)});
       },
       [this](const rendezvous::LearnedTimes& learned) {
         send(rendezvous::NodeLearned{node(), round_.seat()->round, learned});
       },
       [this](const HungWorker& worker) { on_hung(worker); },
       [this](const StandingWorker& worker) { tell_.reporter().stands_still(worker); },
       [this](int local_rank, Duration stood) { tell_.reporter().goes_on(local_rank, stood); },
       [this](const std::map<int, WorkerSight>& seen) {
         desk_.looked(seen);
         watches_.account().look();
       },
       [this](const auto& local_ranks, const auto& stacks) { tell_.keep_stacks(local_ranks, stacks); }},
      {[this] { return running_round(); },
       [this](std::vector<rendezvous::Pace> windows) {
         for (rendezvous::Pace& window : windows) window.rank = round_.workers().rank_of(window.rank);
         send(rendezvous::NodePace{node(), round_.seat()->round, std::move(windows)});
       }},
      {[this] { return running_round(); }, [this] { tell_.reporter().all_still(kAllStillLimit); }},
      {[this] { return static_cast<int>(round_.workers().records().size()); },
       [this](int local_rank) { return round_.workers().channels().progress(local_rank, Clock::now()); },
       [this] { return watches_.hangs().recent_step(); },
       [this](int round, const rendezvous::RoundSpent& spent) {
         return contact_.coordination().send(rendezvous::NodeSpent{node(), round, spent});
       },
       {}},
      {[this] { return running_round().has_value(); }, [this](const OutputWatch::Finding& found) { on_output(found); },
       [this](const Metric& metric) {
         desk_.measured(metric.name, metric.last);
         tell_.events().measured(metric);
       },
       [this](const LineSearch::Wanted& dropped) {
         tell_.reporter().pattern_dropped(dropped.whose, dropped.pattern);
       }}};
  if (tell_.events().on())
    hooks.account.on_progress = [this](const JobProgress& progress) { tell_.events().progressed(progress); };
  return hooks;
}

Faults::Hooks Agent::fault_hooks() {
  return {[this](const std::string& line) { pipes_.print(line); },
          [this](int local_rank) { return round_.workers().running(local_rank); },
          [this] { return watches_.hangs().suspended(); }, [this](Duration time) { contact_.coordination().cut(time); },
          [this] {
            if (contact_.signal() != 0) return false;
            dispatch(Signalled{SIGTERM});
            return true;
          }};
}

Desk::Hooks Agent::desk_hooks() {
  return {[this] { return contact_.coordination().connected() ? std::optional(node()) : std::nullopt; },
          [this](const rendezvous::FromAgent& message) { send(message); },
          [this] {
            return Desk::NodeState{running_round(), supervision_.now().state_name(), end_.well, end_.here};
          },
          [this](JobMeasures& out) {
            const auto spent = watches_.account().closed() ? std::nullopt : watches_.account().spent();
            if (spent) out.snapshot_stall += spent->save;
            const rendezvous::Server::Counts store = round_.store().counts();
            out.store.connections = store.connections;
            for (std::size_t op = 0; op < store.requests.size(); ++op)
              out.store.requests.emplace_back(rendezvous::kOpNames[op], store.requests[op]);
          },
          [this](const std::string& sentence) { tell_.say(sentence); },
          {[this] { return round_.seat() ? &*round_.seat() : nullptr; },
           [this] { return supervision_.now().round_with_workers().has_value(); },
           [this](rendezvous::NodeReport& out) {
             out.declined_fault = faults_.declined();
             if (round_.seat()) out.spent = watches_.account().spent();
           },
           [this] {
             watches_.hangs().look();
             return watches_.hangs().standings();
           },
           [this] { return watches_.hangs().recent_step(); },
           [this](int local_rank) { return round_.workers().running(local_rank); },
           [this](int local_rank) { return round_.workers().channels().progress(local_rank, Clock::now()); },
           [this](int local_rank) { return watches_.use().use(local_rank); },
           [this](std::vector<pid_t> pids, Duration limit, AsyncStacks::OnTaken taken) {
             watches_.hangs().take_stacks(std::move(pids), limit, std::move(taken));
           }},
          [this](int round, const rendezvous::RankView& rank) { return passed_ends(round, rank); },
          [this](int round, int rank) { pipes_.await_close(round, rank, kLastOutputLimit); }};
}

std::optional<std::vector<OutputEnd>> Agent::passed_ends(int round, const rendezvous::RankView& rank) const {
  const auto& seat = round_.seat();
  if (!seat || seat->round != round || round_.workers().running(rank.rank - seat->first_rank) != rank.pid) return {};
  std::vector<OutputEnd> out;
  for (LogPipes::PassedEnd& end : pipes_.passed_ends(round, rank.rank))
    out.push_back({end.is_stdout, Clock::now() - end.at, std::move(end.bytes)});
  return out;
}

// A scheduler may signal every process of the job, and the workers before us.
void Agent::on_notice(int local_rank, int signal) {
  const std::vector<int>& notices = options_.stop.notice_signals;
  if (contact_.signal() != 0 || std::find(notices.begin(), notices.end(), signal) == notices.end()) return;
  tell_.reporter().worker_noticed(local_rank, signal);
  dispatch(Signalled{SIGTERM});
}

void Agent::on_preempted(const std::string& why) {
  if (contact_.signal() != 0) return;
  tell_.reporter().probe_noticed(why);
  dispatch(Signalled{SIGTERM});
}

// A node without workers tells the coordinator; one that runs a round does so after it.
void Agent::on_health() {
  if (contact_.signal() != 0) return;  // it leaves
  if (const std::string why = machine_.unfit(); !why.empty()) {
    round_.workers().kill_parked();  // what they hold may be what is missing
    tell_.reporter().unhealthy(why);
  }
  if (!supervision_.now().round_with_workers() && contact_.coordination().connected()) send_ready();
}

std::string Agent::unfit() const {
  if (!round_.held().empty()) return tell_.reporter().survivors(round_.held());
  return machine_.unfit();
}

void Agent::on_template() {
  if (!std::exchange(awaits_.the_template, false) || contact_.signal() != 0) return;
  if (contact_.coordination().connected()) offer_node();
}

void Agent::on_hung(const HungWorker& worker) {
  tell_.reporter().hang_found(worker.local_rank, worker.how, worker.stacks);
  dispatch(WorkerDying{worker.round, worker.local_rank, {.hung = true}});
}

// Of silence a worker is named that has not ended, as the last writer may have.
void Agent::on_output(const OutputWatch::Finding& found) {
  const auto& workers = round_.workers().records();
  const auto named = workers.find(found.local_rank);
  const auto other =
      std::find_if(workers.begin(), workers.end(), [](const auto& one) { return is_running(one.second); });
  const bool is_other = other != workers.end() && (named == workers.end() || !is_running(named->second));
  tell_.reporter().output_found(found.rule);
  dispatch(WorkerDying{round_.seat()->round, is_other ? other->first : found.local_rank, {.by_output = true}});
}

}  // namespace ddprun::agent

// How a worker's failure, a round and the job end on this node.
#include <algorithm>
#include <csignal>
#include <memory>
#include <utility>

#include <asio/post.hpp>
#include <asio/steady_timer.hpp>

#include "agent/agent.h"
#include "agent/channel/channel_user.h"
#include "agent/tell/memory_relief.h"
#include "rendezvous/base/handler_time.h"

namespace ddprun::agent {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kDrainEvery{20};
constexpr milliseconds kDrainLimit{2'000};       // a console that accepts nothing for this long is stuck
constexpr milliseconds kPatientLimit{20'000};    // if plain stdout goes to it through us: our own would wait forever
constexpr milliseconds kSameFailureWait{1'000};  // another start would only repeat it, so nobody waits for one

}  // namespace

// A worker in the terminal's foreground gets Ctrl-C itself, and may end before the keeper has forwarded it.
bool Agent::is_ctrl_c(const WorkerEnd& end) const { return end.status.signal == SIGINT && round_.in_foreground(); }

void Agent::report_failure(const ReportFailure& report) {
  rendezvous::Failure failure{.round = report.round,
                              .node = node(),
                              .local_rank = report.local_rank,
                              .rank = round_.workers().rank_of(report.local_rank),
                              .status = report.status};
  failure.host = options_.logs.host;
  if (const auto& hung = watches_.hangs().hung(); failure.status.hung && hung) {
    failure.how = hung->how;
    failure.of_all = hung->of_all;
    failure.place = hung->place;
  }
  if (failure.status.hung || failure.status.by_output)  // it lives, and would come to wait like the others
    round_.workers().replace(report.local_rank, failure.status.hung ? SIGKILL : SIGTERM);
  close_account();
  tell_.reporter().noticed(failure);
  tell_.events().failed(report.local_rank);
  machine_.suspect();
  const RoundSoFar so_far = round_so_far();
  const rendezvous::WorkerFailed told =
      tell_.failures().describe(std::move(failure), so_far, watches_.output().finding());
  desk_.failed(told.failure.kind);
  spare_memory(told.failure, so_far.has_progressed());
  if (tell_.failures().by_lost_reader(told.failure)) return dispatch(Signalled{SIGPIPE});  // as `| head` means it
  if (tell_.failures().by_left_debugger(told.failure)) {  // a restart would only ask again
    tell_.say("rank " + std::to_string(told.failure.rank) + "'s debugger was quit: the job ends");
    pipes_.show_tracebacks(": bdb.BdbQuit");  // nobody needs to see its own
    return dispatch(Signalled{SIGINT});
  }
  send(told);
}

RoundSoFar Agent::round_so_far() {
  const TimePoint now = Clock::now();
  const auto since = round_.workers_run_since();
  WorkerChannels& channels = round_.workers().channels();
  const bool has_rank_0 = round_.seat()->first_rank == 0;
  return {channels.progressed(now), since && now - *since >= options_.progress_after,
          has_rank_0 && options_.memory_snapshots == 0 && channels.nothing_saved(now),
          has_rank_0 ? channels.unasked(now) : std::nullopt};
}

void Agent::spare_memory(const rendezvous::Failure& failure, bool progressed) {
  NodeMemory& memory = round_.memory();
  const std::uint64_t bytes = memory.bytes_in_use();
  const MemoryRelief relief = relief_after(failure, progressed, bytes);
  if (relief == MemoryRelief::given_back) memory.give_back_later();
  if (relief != MemoryRelief::none) tell_.say(in_words(relief, bytes));
}

void Agent::report_held(const std::vector<int>& local_ranks) {
  if (round_.hold(local_ranks, machine_.children())) send(rendezvous::NodeReady{node(), offer()});
}

void Agent::signal_workers(const SignalWorkers& order) {
  round_.stop_starting();
  const bool for_a_failure =
      order.signal == SIGTERM && round_.seat() && !round_.end_was_planned() && contact_.signal() == 0;
  const auto then = [this, order, round = round_.seat() ? round_.seat()->round : 0] {
    if (supervision_.now().round_with_workers() != round) return false;  // they have ended by themselves
    send_signal(order);
    return true;
  };
  if (for_a_failure && watches_.hangs().takes_stacks_before(then)) return;
  if (!for_a_failure || round_so_far().has_progressed()) return send_signal(order);
  asio::post(io_, [this, then, round = round_.seat()->round] {  // the failure has been reported
    if (!tell_.failures().none_can_begin(round)) return void(then());
    const auto timer =
        std::make_shared<asio::steady_timer>(io_, std::min<Duration>(kSameFailureWait, options_.stop.stop_grace / 4));
    timer->async_wait([timer, then](std::error_code) { then(); });
  });
}

void Agent::send_signal(const SignalWorkers& order) {
  tell_.events().workers_signalled();
  close_account();
  round_.signal(order, supervision_.event_at());
}

void Agent::close_account() {
  faults_.end();
  if (const auto spent = watches_.account().close()) desk_.time_spent(*spent);
}

void Agent::finish(const Finish& finish) {
  const MayWait for_the_console;
  const rendezvous::Outcome& outcome = finish.outcome;
  JobResult& result = end_.result;
  WorkerGroup& workers = round_.workers();
  const bool interrupted = outcome.verdict == rendezvous::Verdict::interrupted;
  end_.here = true;
  machine_.stop();
  round_.end_workers();
  result = {.outcome = outcome, .finished = round_.had_workers() && workers.all_finished(Clock::now())};
  result.seat = round_.seat();
  if (round_.had_workers() && interrupted)
    result.unsaved = workers.channels().unsaved(Clock::now(), {finish.saved.begin(), finish.saved.end()}, [this] {
      return names_channel(options_.command.program, options_.command.argv);
    });
  watches_.account().tell(/*again=*/true);  // the coordinator writes its account, now with the last stop
  contact_.end_wait();
  round_.close();
  const bool in_a_hurry = contact_.signal() != 0;  // who stops us may soon kill us
  const bool has_time = options_.logs.keeps_output && !in_a_hurry;
  pipes_.drain(has_time ? kPatientLimit : kDrainLimit);
  watches_.output().tell();
  if (in_a_hurry) tell_.events().finished(outcome, watches_.account().spent());
  desk_.job_ended(outcome);
  if ((interrupted || outcome.cause) && !result.finished) report_lost(interrupted);
  tell_.ending().print_report(outcome, in_a_hurry, [this, outcome, in_a_hurry](const std::string& report) {
    end_.result.report = report;
    tell_.events().reported(report);
    if (!in_a_hurry) tell_.events().finished(outcome, watches_.account().spent());
    end();
  });
}

void Agent::report_lost(bool interrupted) {
  const bool has_rank_0 = round_.had_workers() && round_.seat() && round_.seat()->first_rank == 0;
  if (const auto unasked = has_rank_0 ? round_.workers().channels().unasked(Clock::now()) : std::nullopt)
    return tell_.reporter().lost(*unasked, interrupted && contact_.signal() != SIGINT);
  if (!interrupted) return;
  const WorkerChannels::Unsaved& unsaved = end_.result.unsaved;
  const bool cut = unsaved.saving && round_.grace_is_over();
  tell_.reporter().lost(unsaved, cut ? std::optional(options_.stop.stop_grace) : std::nullopt);
  if (const auto code = options_.stop.preempt_exit_code; code && !unsaved.known)
    tell_.reporter().may_be_lost(unsaved.unknown, *code);
}

void Agent::end() {
  const MayWait for_the_console;
  pipes_.show_tracebacks("");  // of a job that ended without a report
  const bool nobody_reads_files = end_.well || !options_.prints_end;
  tell_.reporter().error_files_are_in(layout_.clean_up(nobody_reads_files));
  pipes_.drain(kDrainLimit);
  desk_.push_last([this] {
    const MayWait for_what_it_says;
    pipes_.drain(kDrainLimit);
    io_.stop();
  });
}

void Agent::await_files() {
  const TimePoint until = Clock::now() + options_.stop.stop_grace;
  while (!tell_.files_written(kDrainEvery) && !end_.requested && Clock::now() < until) {
    io_.restart();
    io_.poll();  // signals
  }
  if (tell_.give_up_files()) pipes_.drain(kDrainLimit);
}

}  // namespace ddprun::agent

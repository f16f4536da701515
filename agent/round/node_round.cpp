#include "agent/round/node_round.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <set>
#include <utility>

#include "agent/prefork/template_choice.h"
#include "agent/process/descendants.h"
#include "rendezvous/base/handler_time.h"

namespace ddprun::agent {
namespace {

constexpr std::chrono::milliseconds kParkLimit{3'000};

// A single worker on a terminal stays in its foreground: it joins the keeper's process group.
std::optional<pid_t> terminal_group(const RoundOptions& options) {
  if (options.workers != 1 || !isatty(STDIN_FILENO)) return {};
  return getpgid(getppid());
}

}  // namespace

NodeRound::NodeRound(asio::io_context& io, RoundOptions& options, WorkerStreams streams, Hooks hooks)
    : io_(io),
      options_(options),
      hooks_(std::move(hooks)),
      in_foreground_(terminal_group(options).has_value()),
      workers_(io, std::move(streams), terminal_group(options),
               {[this](int local_rank, int error) {
                  if (hooks_.on_started(local_rank, error)) start_from(local_rank + 1);
                },
                hooks_.on_end, hooks_.on_dying, hooks_.on_notice}),
      sweep_(io, hooks_.on_swept),
      timers_(io, workers_, hooks_.timers),
      store_(io, options, hooks_.store),
      memory_(io, options.memory_snapshots, hooks_.memory),
      park_timer_(io) {}

bool NodeRound::prepare() {
  bool has_group = true;
  if (options_.cgroup) {
    if (std::optional<Cgroup> made = Cgroup::create()) {
      cgroup_.emplace(std::move(*made));
      options_.command.cgroup_fd = cgroup_->fd();
    } else {
      has_group = false;
    }
  }
  workers_.make_error_folder();
  memory_.make(options_.workers);
  pass_memory();
  return has_group;
}

void NodeRound::pass_memory() {
  options_.command.snapshot_memory_fd = memory_.snapshots_fd();
  options_.command.copy_memory_fd = memory_.copies_fd();
}

void NodeRound::start_template() {
  if (!options_.prefork) return;
  const WorkerCommand& command = options_.command;
  if (const std::string why = why_no_template(command.name, command.program, options_.prefork->python); !why.empty())
    return hooks_.say("workers are started without --prefork, as " + why);
  const Environment own = common_variables(command.job, options_.workers, command.inherited);
  TemplateCommand of{command.program,
                     command.argv,
                     merged(command.inherited, own),
                     command.core_dumps,
                     options_.prefork->python,
                     options_.prefork->imports,
                     options_.prefork->learned};
  template_.emplace(io_, std::move(of), hooks_.say, hooks_.on_template);
  template_->start();
}

void NodeRound::open_store() {
  store_.close();
  timers_.close();
  store_.open();
}

void NodeRound::take_seat(const rendezvous::Seat& seat, Coordination& coordination) {
  if (seat.workers != options_.workers) change_workers(seat.workers);
  seat_ = seat;
  if (store_.is_through_agents(seat)) store_.open_proxy(seat, coordination);
  memory_.take_seat(seat);
}

// By a user (ddprun ctl add-workers). No worker runs; who waited in process has the memory of before.
void NodeRound::change_workers(int workers) {
  const Environment before = common_variables(options_.command.job, options_.workers, options_.command.inherited);
  options_.workers = workers;
  workers_.kill_parked();
  memory_.change_workers(workers);
  pass_memory();
  if (template_ && before != common_variables(options_.command.job, workers, options_.command.inherited)) {
    template_.reset();  // it has read its variables
    start_template();
    if (template_) template_->do_not_await();
  }
}

void NodeRound::begin(const rendezvous::Seat& seat) {
  if (options_.several_nodes) {
    options_.command.inherited["DDPRUN_MASTER_ADDR"] = seat.master_host;
    options_.command.inherited["DDPRUN_MASTER_PORT"] = std::to_string(seat.master_port);
  }
  park_timer_.cancel();
  memory_.begin_round(seat);
  workers_.begin(store_.seat_for_workers(seat));
  has_workers_ = true;
  end_was_planned_ = grace_is_over_ = false;
  workers_run_since_.reset();
  stopping_since_.reset();
  if (options_.timer_file) options_.command.inherited["TORCHELASTIC_TIMER_FILE"] = timers_.open(*options_.timer_file);
  if (template_) template_->begin_round();
}

void NodeRound::start_from(int local_rank) {
  const MayWait until_they_are_executed;
  for (; local_rank < seat_->workers; ++local_rank) {
    const auto error = workers_.start(options_.command, local_rank, template_ ? &*template_ : nullptr);
    if (!error || !hooks_.on_started(local_rank, *error)) return;
  }
  workers_.channels().all_started();
  workers_run_since_ = Clock::now();
  if (options_.stuck_limit) timers_.watch_for_stuck(StuckWatch(*options_.stuck_limit), seat_->round);
  hooks_.on_all_started();
}

// The round's store is closed first: who waits there for a lost peer learns of it.
void NodeRound::ask_to_leave() {
  if (options_.command.in_process && !no_round_follows_) {
    store_.close();
    workers_.let_park();
    park_timer_.expires_after(std::min<Duration>(kParkLimit, options_.stop.stop_grace / 2));
    park_timer_.async_wait([this](const asio::error_code& error) {
      if (!error) workers_.end_park(/*late=*/true);
    });
  }
  workers_.channels().request_leave();
}

void NodeRound::stop_parking() {
  no_round_follows_ = true;
  park_timer_.cancel();
  workers_.end_park(/*late=*/false);
}

// SIGKILL needs no scope: the rest of a worker's group is killed when the worker is reaped.
void NodeRound::signal(const SignalWorkers& order, TimePoint at) {
  if (order.signal != SIGKILL) {
    stopping_since_ = stopping_since_.value_or(at);
    return workers_.ask_to_end(order.signal, options_.stop_scope, order.delivered);
  }
  grace_is_over_ = stopping_since_ && at - *stopping_since_ >= options_.stop.stop_grace;
  workers_.signal(SIGKILL);
}

void NodeRound::sweep(int round) {
  stop_starting();
  std::vector<pid_t> spared = workers_.parked();
  if (template_ && template_->child()) spared.push_back(*template_->child());
  sweep_.begin(round, cgroup_ ? &*cgroup_ : nullptr, std::move(spared));
}

bool NodeRound::hold(const std::vector<int>& local_ranks, const std::vector<pid_t>& others) {
  if (!workers_.kill_all()) return false;
  std::set<pid_t> spared(others.begin(), others.end());
  for (const pid_t pid : workers_.parked()) spared.insert(pid);
  kill_descendants(getpid(), spared);  // those of a worker that is not dead yet are no orphans of ours
  held_ranks_ = local_ranks;
  return true;
}

void NodeRound::leave() {
  held_ranks_.clear();
  if (memory_.give_back(options_.workers)) {
    workers_.kill_parked();  // they hold the old one
    pass_memory();
  }
  has_workers_ &= end_was_planned_;  // what a failure lost is not lost to an interruption
}

std::vector<WorkerEnd> NodeRound::collect(std::vector<pid_t> others) {
  if (const auto child = template_ ? template_->child() : std::nullopt) others.push_back(*child);
  return workers_.collect(options_.stop, others);
}

void NodeRound::reap_strays(std::vector<pid_t> others) {
  if (const auto child = template_ ? template_->child() : std::nullopt) others.push_back(*child);
  workers_.reap_strays(std::move(others));
}

void NodeRound::end_workers() {
  if (template_) template_->stop();
  park_timer_.cancel();
  workers_.kill_parked();
}

void NodeRound::close() {
  memory_.end_copies();
  store_.close();
  timers_.close();
}

}  // namespace ddprun::agent

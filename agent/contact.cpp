#include "agent/contact.h"

#include <csignal>
#include <utility>

#include <asio/post.hpp>

#include "agent/waiting_message.h"
#include "rendezvous/coordination/first_place.h"
#include "rendezvous/peer/loopback.h"

namespace ddprun::agent {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLeaveLimit{5'000};  // in addition to the others' grace period
constexpr milliseconds kPollInterval{20};
constexpr std::chrono::seconds kNewJobLimit{5};  // for the others to be restarted after the job could not continue

}  // namespace

Contact::Contact(asio::io_context& io, const rendezvous::RoundPolicy& policy, Context context, Hooks hooks)
    : io_(io),
      policy_(policy),
      context_(context),
      hooks_(std::move(hooks)),
      meeting_(context_.options.meeting),
      wait_(io, context_.pipes),
      coordination_(make()) {}

std::unique_ptr<Coordination> Contact::make() {
  Coordination::Hooks hooks{[this] { connected(); },
                            hooks_.on_message,
                            [this] { hooks_.dispatch(Isolated{}); },
                            [this](const std::string& why, bool certain) { disconnected(why, certain); },
                            [this](const std::string& why, bool certain) {
                              if (certain) return abandon_job(why);
                              hooks_.dispatch(JobEnded{{rendezvous::Verdict::out_of_reach, 0, why, {}}});
                            },
                            [this](const std::string& line) { context_.pipes.print("ddprun: " + line + "\n"); },
                            hooks_.on_request,
                            hooks_.on_ledger,
                            hooks_.on_copies};
  if (!meeting_) return make_local_coordination(io_, policy_, std::move(hooks));
  return make_remote_coordination(io_, policy_, *meeting_, std::move(hooks));
}

void Contact::start() {
  if (meeting_) wait_.show_reason("waiting for the coordinator at " + meeting_->places.front().host);
  coordination_->start();
}

// Earlier messages may not have arrived.
void Contact::connected() {
  wait_.end();
  disconnected_since_ = TimePoint::max();
  job_over_reason_.clear();
  hooks_.on_connected();
  send_signal();
}

// Called repeatedly, as long as it lasts.
void Contact::disconnected(const std::string& why, bool certain) {
  const TimePoint now = Clock::now();
  if (disconnected_since_ == TimePoint::max()) disconnected_since_ = now;
  context_.log.write(LogLevel::info, "the coordinator is unreachable: " + why);
  if (context_.supervisor.round_with_workers() && !context_.supervisor.held_by_kernel()) return;
  if (signal_ != 0) return hooks_.dispatch(JobEnded{{rendezvous::Verdict::interrupted, signal_, "interrupted", {}}});
  if (!job_over_reason_.empty() && now - disconnected_since_ >= kNewJobLimit)
    return hooks_.dispatch(JobEnded{{rendezvous::Verdict::out_of_reach, 0, job_over_reason_, {}}});
  const Duration patience = had_seat_ ? Duration(rendezvous::kCoordinatorSearchLimit) : context_.options.join_timeout;
  if (now - disconnected_since_ < patience) {
    wait_.show_reason("waiting for the coordinator: " + why, certain);
    return warn_if_loopback();
  }
  const rendezvous::Verdict verdict =
      had_seat_ ? rendezvous::Verdict::out_of_reach : rendezvous::Verdict::too_few_nodes;
  hooks_.dispatch(JobEnded{{verdict, 0, "the coordinator could not be reached (" + why + ")", {}}});
}

// As if this node had been restarted, but only for a short time: whatever restarts the others may restart it, too.
void Contact::abandon_job(const std::string& why) {
  job_over_reason_ = why;
  disconnected_since_ = Clock::now();
  context_.pipes.print("ddprun: " + why + "; this node stops its workers and waits " +
                       std::to_string(kNewJobLimit.count()) + " s for the job to restart.\n");
  rejoins_after_stop_ = true;
  hooks_.dispatch(Isolated{});
  if (!context_.supervisor.round_with_workers()) rejoin_as_new_node();
}

// Not earlier: once nothing listens at our port, the others assume that our workers are dead.
void Contact::rejoin_as_new_node() {
  if (!std::exchange(rejoins_after_stop_, false)) return;
  asio::post(io_, [this] {
    disconnected_since_ = Clock::now();
    meeting_->instead_of = coordination_->node();
    coordination_->leave();
    coordination_.reset();
    coordination_ = make();
    coordination_->start();
  });
}

bool Contact::rejoin() {
  if (coordination_->connected()) return true;
  rejoin_as_new_node();
  return false;
}

void Contact::interrupted(int signal) {
  signal_ = signal;
  send_signal();
  if (!coordination_->connected()) disconnected("this node was interrupted", false);
}

void Contact::send_signal() {
  if (signal_ == SIGINT) coordination_->send(rendezvous::JobInterrupted{coordination_->node(), signal_});
  if (signal_ != 0 && signal_ != SIGINT) coordination_->send(rendezvous::NodeLeaves{coordination_->node(), signal_});
}

void Contact::on_seat() {
  had_seat_ = true;
  wait_.end();
}

void Contact::show_wait(const std::optional<rendezvous::Attendance>& attendance) {
  wait_.show(waiting_message(attendance, context_.options.workers));
  if (attendance && attendance->nodes == 1) warn_if_loopback();
}

void Contact::warn_if_loopback() {
  const std::string& host = meeting_->places.front().host;
  if (wait_.elapsed() < kMessageDelay || !rendezvous::is_loopback(host) || std::exchange(warned_of_loopback_, true))
    return;
  context_.reporter.only_here(host, context_.options.rdzv_backend == "static" ? "--master-addr" : "--rdzv-endpoint");
}

void Contact::leave(const bool& end_requested) {
  const TimePoint until = Clock::now() + context_.options.stop.stop_grace + kLeaveLimit;
  while (!end_requested && Clock::now() < until && !coordination_->may_leave()) {
    io_.restart();
    io_.run_one_for(kPollInterval);
  }
  coordination_->leave();
  while (!end_requested && Clock::now() < until && !coordination_->all_left(kPollInterval)) {
    io_.restart();
    io_.poll();  // signals
  }
}

}  // namespace ddprun::agent

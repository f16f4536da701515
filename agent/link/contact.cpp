#include "agent/link/contact.h"

#include <csignal>
#include <utility>

#include <asio/post.hpp>

#include "agent/link/waiting_message.h"
#include "rendezvous/coordination/election/first_place.h"
#include "rendezvous/peer/loopback.h"

namespace ddprun::agent {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLeaveLimit{5'000};  // in addition to the others' grace period
constexpr milliseconds kPollInterval{20};
constexpr std::chrono::seconds kNewJobLimit{5};  // for the others to be restarted after the job could not continue

}  // namespace

Contact::Contact(asio::io_context& io, const rendezvous::RoundPolicy& policy, ContactOptions options, LogPipes& pipes,
                 WorkerFence& fence, Hooks hooks)
    : io_(io),
      policy_(policy),
      options_(std::move(options)),
      pipes_(pipes),
      fence_(fence),
      hooks_(std::move(hooks)),
      wait_(io, pipes),
      coordination_(make()) {}

std::unique_ptr<Coordination> Contact::make() {
  Coordination::Hooks hooks{
      [this] { connected(); },
      hooks_.on_message,
      hooks_.on_isolated,
      [this](const std::string& why, bool certain, TimePoint when) { disconnected(why, certain, when); },
      [this](const std::string& why, bool certain) {
        if (certain) return abandon_job(why);
        hooks_.on_job_end({rendezvous::Verdict::out_of_reach, 0, why, {}});
      },
      [this](const std::string& line) { pipes_.print("ddprun: " + line + "\n"); },
      hooks_.on_request,
      hooks_.on_ledger,
      hooks_.on_copies,
      &fence_};
  if (!options_.meeting) return make_local_coordination(io_, policy_, std::move(hooks));
  return make_remote_coordination(io_, policy_, *options_.meeting, std::move(hooks));
}

void Contact::start() {
  if (options_.meeting && !options_.meeting->etcd)
    wait_.show_reason("waiting for the coordinator at " + options_.meeting->places.front().host);
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
void Contact::disconnected(const std::string& why, bool certain, TimePoint now) {
  if (disconnected_since_ == TimePoint::max()) disconnected_since_ = now;
  hooks_.on_failure(why);
  if (hooks_.awaits_workers()) return;
  if (signal_ != 0) return hooks_.on_job_end({rendezvous::Verdict::interrupted, signal_, "interrupted", {}});
  if (!job_over_reason_.empty() && now - disconnected_since_ >= kNewJobLimit)
    return hooks_.on_job_end({rendezvous::Verdict::out_of_reach, 0, job_over_reason_, {}});
  const bool elected_here = had_seat_ && !options_.meeting->etcd;  // else etcd may be out of reach for long
  const Duration patience = elected_here ? Duration(rendezvous::kCoordinatorSearchLimit) : options_.join_timeout;
  if (now - disconnected_since_ < patience) {
    wait_.show_reason("waiting for the coordinator: " + why, certain);
    return warn_if_loopback();
  }
  const rendezvous::Verdict verdict =
      had_seat_ ? rendezvous::Verdict::out_of_reach : rendezvous::Verdict::too_few_nodes;
  hooks_.on_job_end({verdict, 0, "the coordinator could not be reached (" + why + ")", {}});
}

// As if this node had been restarted, but only for a short time: whatever restarts the others may restart it, too.
void Contact::abandon_job(const std::string& why) {
  job_over_reason_ = why;
  disconnected_since_ = Clock::now();
  pipes_.print("ddprun: " + why + "; this node stops its workers and waits " + std::to_string(kNewJobLimit.count()) +
               " s for the job to restart.\n");
  rejoins_after_stop_ = true;
  hooks_.on_isolated();
  if (!hooks_.has_workers()) rejoin_as_new_node();
}

// Not earlier: once nothing listens at our port, the others assume that our workers are dead.
void Contact::rejoin_as_new_node() {
  if (!std::exchange(rejoins_after_stop_, false)) return;
  asio::post(io_, [this] {
    disconnected_since_ = Clock::now();
    options_.meeting->instead_of = coordination_->node();
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
  if (!coordination_->connected()) disconnected("this node was interrupted", false, Clock::now());
}

void Contact::send_signal() {
  if (signal_ == 0) return;
  if (signal_ == SIGINT || signal_ == SIGPIPE)
    coordination_->send(rendezvous::JobInterrupted{coordination_->node(), signal_});
  else
    coordination_->send(rendezvous::NodeLeaves{coordination_->node(), signal_});
}

void Contact::on_seat() {
  had_seat_ = true;
  wait_.end();
}

void Contact::show_wait(const std::optional<rendezvous::Attendance>& attendance, int workers) {
  wait_.show(waiting_message(attendance, workers));
  if (attendance && attendance->nodes == 1) warn_if_loopback();
}

void Contact::warn_if_loopback() {
  if (options_.meeting->etcd) return;
  const std::string& host = options_.meeting->places.front().host;
  if (wait_.elapsed() < kMessageDelay || !rendezvous::is_loopback(host) || std::exchange(warned_of_loopback_, true))
    return;
  hooks_.only_here(host, options_.endpoint_option);
}

void Contact::leave(const bool& end_requested) {
  const TimePoint until = Clock::now() + options_.stop_grace + kLeaveLimit;
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

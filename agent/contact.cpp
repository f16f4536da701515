#include "agent/contact.h"

#include <csignal>
#include <utility>

#include <asio/post.hpp>

#include "agent/waiting_words.h"
#include "rendezvous/coordination/first_place.h"
#include "rendezvous/peer/loopback.h"

namespace ddprun::agent {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kGoodbyeLimit{5'000};  // in addition to the others' grace period
constexpr milliseconds kLook{20};
constexpr std::chrono::seconds kNewJobLimit{5};  // for the others to be restarted after the job could not continue

}  // namespace

Contact::Contact(asio::io_context& io, const rendezvous::RoundPolicy& policy, Surroundings surroundings, Hooks hooks)
    : io_(io),
      policy_(policy),
      around_(surroundings),
      hooks_(std::move(hooks)),
      meeting_(around_.options.meeting),
      wait_(io, around_.pipes),
      coordination_(make()) {}

std::unique_ptr<Coordination> Contact::make() {
  Coordination::Hooks hooks{[this] { connected(); },
                            hooks_.on_message,
                            [this] { hooks_.dispatch(Isolated{}); },
                            [this](const std::string& why, bool certain) { disconnected(why, certain); },
                            [this](const std::string& why, bool certain) {
                              if (certain) return begin_anew(why);
                              hooks_.dispatch(JobEnded{{rendezvous::Verdict::out_of_reach, 0, why, {}}});
                            },
                            [this](const std::string& line) { around_.pipes.print("ddprun: " + line + "\n"); }};
  if (!meeting_) return coordinate_here(io_, policy_, std::move(hooks));
  return meet(io_, policy_, *meeting_, std::move(hooks));
}

void Contact::start() {
  if (meeting_) wait_.tell_trouble("waiting for the coordinator at " + meeting_->places.front().host);
  coordination_->start();
}

// Earlier messages may not have arrived.
void Contact::connected() {
  wait_.over();
  alone_since_ = TimePoint::max();
  job_is_over_.clear();
  hooks_.on_connected();
  tell_of_signal();
}

// Called repeatedly, as long as it lasts.
void Contact::disconnected(const std::string& why, bool certain) {
  const TimePoint now = Clock::now();
  if (alone_since_ == TimePoint::max()) alone_since_ = now;
  around_.log.write(LogLevel::info, "the coordinator is out of reach: " + why);
  if (around_.supervisor.round_with_workers() && !around_.supervisor.held_by_kernel()) return;
  if (signal_ != 0) return hooks_.dispatch(JobEnded{{rendezvous::Verdict::interrupted, signal_, "interrupted", {}}});
  if (!job_is_over_.empty() && now - alone_since_ >= kNewJobLimit)
    return hooks_.dispatch(JobEnded{{rendezvous::Verdict::out_of_reach, 0, job_is_over_, {}}});
  const Duration patience = had_seat_ ? Duration(rendezvous::kLooksForJob) : around_.options.join_timeout;
  if (now - alone_since_ < patience) {
    wait_.tell_trouble("waiting for the coordinator: " + why, certain);
    return warn_where_alone();
  }
  const rendezvous::Verdict verdict =
      had_seat_ ? rendezvous::Verdict::out_of_reach : rendezvous::Verdict::too_few_nodes;
  hooks_.dispatch(JobEnded{{verdict, 0, "the coordinator could not be reached (" + why + ")", {}}});
}

// As if this node had been restarted, but only for a short time: whatever restarts the others may restart it, too.
void Contact::begin_anew(const std::string& why) {
  job_is_over_ = why;
  alone_since_ = Clock::now();
  around_.pipes.print("ddprun: " + why + "; this node ends its workers, and looks for " +
                      std::to_string(kNewJobLimit.count()) + " s whether the job begins anew.\n");
  gives_up_ = true;
  hooks_.dispatch(Isolated{});
  if (!around_.supervisor.round_with_workers()) meet_anew();
}

// Not earlier: once nothing listens at our port, the others assume that our workers are dead.
void Contact::meet_anew() {
  if (!std::exchange(gives_up_, false)) return;
  asio::post(io_, [this] {
    alone_since_ = Clock::now();
    meeting_->instead_of = coordination_->node();
    coordination_->leave();
    coordination_.reset();
    coordination_ = make();
    coordination_->start();
  });
}

bool Contact::rejoins() {
  if (coordination_->connected()) return true;
  meet_anew();
  return false;
}

void Contact::interrupted(int signal) {
  signal_ = signal;
  tell_of_signal();
  if (!coordination_->connected()) disconnected("somebody wants us to end", false);
}

void Contact::tell_of_signal() {
  if (signal_ == SIGINT) coordination_->send(rendezvous::JobInterrupted{coordination_->node(), signal_});
  if (signal_ != 0 && signal_ != SIGINT) coordination_->send(rendezvous::NodeLeaves{coordination_->node(), signal_});
}

void Contact::took_seat() {
  had_seat_ = true;
  wait_.over();
}

void Contact::tell_of_wait(const std::optional<rendezvous::Attendance>& attendance) {
  wait_.tell(waiting_words(attendance, around_.options.workers));
  if (attendance && attendance->nodes == 1) warn_where_alone();
}

void Contact::warn_where_alone() {
  const std::string& host = meeting_->places.front().host;
  if (wait_.so_far() < kPatience || !rendezvous::is_loopback(host) || std::exchange(warned_where_alone_, true)) return;
  around_.reporter.only_here(host, around_.options.rdzv_backend == "static" ? "--master-addr" : "--rdzv-endpoint");
}

void Contact::leave(const bool& hurried) {
  const TimePoint until = Clock::now() + around_.options.stop.stop_grace + kGoodbyeLimit;
  while (!hurried && Clock::now() < until && !coordination_->may_leave()) {
    io_.restart();
    io_.run_one_for(kLook);
  }
  coordination_->leave();
  while (!hurried && Clock::now() < until && !coordination_->all_left(kLook)) {
    io_.restart();
    io_.poll();  // signals
  }
}

}  // namespace ddprun::agent

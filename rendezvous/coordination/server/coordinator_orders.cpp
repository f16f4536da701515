#include "rendezvous/coordination/server/coordinator_orders.h"

#include <algorithm>
#include <set>
#include <utility>

#include "rendezvous/base/overloaded.h"
#include "rendezvous/peer/loopback.h"

namespace ddprun::rendezvous {
namespace {

constexpr std::chrono::milliseconds kAttendanceEvery{100};

std::uint64_t clock_seed() { return static_cast<std::uint64_t>(Clock::now().time_since_epoch().count()); }

}  // namespace

CoordinatorOrders::CoordinatorOrders(asio::io_context& io, CoordinatorSessions& sessions, const RoundPolicy& policy,
                                     std::optional<NodeId> self, Hooks hooks)
    : sessions_(sessions), policy_(policy), self_(self), hooks_(std::move(hooks)), decision_timer_(io) {}

void CoordinatorOrders::begin() {
  coordinator_.emplace(policy_, Clock::now(), clock_seed(), self_);
  start({});
}

void CoordinatorOrders::begin(const Succession& succession) {
  coordinator_.emplace(policy_, Clock::now(), clock_seed(), self_.value_or(0), succession);
  outside_ = succession.record;
  start({succession.term, succession.record.number});
}

void CoordinatorOrders::start(const RecordId& newest) {
  attendance_known_at_ = {};
  ledger_changes_ = 0;
  newest_ = newest;
  record_.reset();
  stored_ = {};
  told_end_ = false;
  waits_.reset();
  schedule_decision();
}

void CoordinatorOrders::end() {
  coordinator_.reset();
  waits_.reset();
  schedule_decision();
}

void CoordinatorOrders::dispatch(const Message& message) {
  if (!coordinator_) return;
  for (const Order& order : coordinator_->on(message, Clock::now())) execute(order);
  schedule_decision();
  report_ledger();
  if (coordinator_ && coordinator_->is_over()) hooks_.on_over();
}

void CoordinatorOrders::report_ledger() {
  if (!coordinator_ || (!hooks_.on_ledger && !hooks_.on_record)) return;
  const int changes = coordinator_->changes();
  const bool ends = hooks_.on_record && coordinator_->is_over() && !std::exchange(told_end_, true);
  if (std::exchange(ledger_changes_, changes) == changes && !ends) return;
  if (hooks_.on_ledger) hooks_.on_ledger(coordinator_->ledger_record(Clock::now()), coordinator_->outcome());
  report_record();
}

void CoordinatorOrders::report_record() {
  if (!hooks_.on_record) return;
  outside_.ledger = coordinator_->ledger_record(Clock::now());
  hooks_.on_record(outside_, coordinator_->outcome());
}

void CoordinatorOrders::record_stored(const RecordId& record, bool in_charge) {
  stored_ = record;
  if (!coordinator_ || !waits_ || stored_ != newest_ || !in_charge) return;
  const Order order = *std::exchange(waits_, std::nullopt);
  begin_round(order);
}

void CoordinatorOrders::begin_round(const Order& order) {
  if (hooks_.on_record && stored_ != newest_) return void(waits_ = order);
  const auto* start = std::get_if<StartRound>(&order);
  if (start) sessions_.send(round_, *start);
  confirm_record();
  if (start) return;
  send_record_to_standbys();
  hooks_.on_hand_over();
}

void CoordinatorOrders::schedule_decision() {
  const auto deadline = coordinator_ ? coordinator_->next_deadline() : std::nullopt;
  if (deadline == decide_at_) return;  // the usual case
  decide_at_ = deadline;
  if (!deadline) return void(decision_timer_.cancel());
  decision_timer_.expires_at(*deadline);
  decision_timer_.async_wait([this](const std::error_code& error) {
    if (error) return;
    decide_at_.reset();
    dispatch(CoordinatorTick{});
  });
}

const std::optional<Attendance>& CoordinatorOrders::attendance() {
  const TimePoint now = Clock::now();
  if (now - attendance_known_at_ >= kAttendanceEvery) {
    attendance_ = coordinator_->attendance();
    attendance_known_at_ = now;
  }
  return attendance_;
}

void CoordinatorOrders::execute(const Order& order) {
  std::visit(overloaded{
                 [&](const FormRound& o) { form(o.round); },
                 [&](const StartRound& o) { begin_round(o); },
                 [&](const EndRound& o) {
                   waits_.reset();
                   attendance_known_at_ = {};
                   sessions_.send(round_, o);
                 },
                 [&](const EndJob& o) { sessions_.send_to_all(o); },
                 [&](const AllNotified& o) { sessions_.send_to_all(o); },
                 [&](const Recall& o) {
                   const char* missed = "this node was unreachable, and the others regrouped";
                   sessions_.send(o.node, EndRound{o.round, false, o.reason.empty() ? missed : o.reason});
                 },
                 [&](const Dismiss& o) {
                   sessions_.send(o.node, EndJob{o.outcome, o.for_all});
                 },
                 [&](const Exclude& o) {
                   sessions_.send(o.node, Excluded{o.why, o.lasts});
                 },
                 [&](const AskStandings& o) { sessions_.send(round_, o); },
                 [&](const AskNodes& o) { o.node ? sessions_.send(*o.node, o) : sessions_.send(round_, o); },
                 [&](const JobReply& o) { sessions_.send(o.asker, o); },
                 [&](const ReportAct& o) { sessions_.send(o.node, o); },
                 [&](const SuspendWorkers& o) { sessions_.send(round_, o); },
                 [&](const TakeSnapshot& o) { sessions_.send(round_, o); },
                 [&](const KeepRange& o) { keep_range(o); },
                 [&](const InjectFault& o) { sessions_.send(o.node, o); },
                 [&](const BlameWorker& o) { sessions_.send(o.node, o); },
                 [&](const ReportPace& o) { sessions_.send(o.node, o); },
                 [&](const HandOver& o) { begin_round(o); },
             },
             order);
}

void CoordinatorOrders::name_this_host(std::string& host) const {
  if (is_loopback(host) && !reached_by_.empty()) host = reached_by_;
}

void CoordinatorOrders::form(Round round) {
  name_this_host(round.master_host);
  round_.clear();
  for (RoundNode& node : round.nodes) {
    round_.push_back(node.id);
    name_this_host(node.control.host);
  }
  if (round.kept)
    for (CommonSnapshot::Holder& holder : round.kept->holders) name_this_host(holder.agent.host);
  newest_ = round.id();
  attendance_known_at_ = {};  // no node is awaited any more
  record_ = std::move(round);
  waits_.reset();
  encode_record();
  if (hooks_.on_record) {
    outside_ = *record_;
    outside_.kept.reset();
    hooks_.on_record(outside_, nullptr);
  }
  send_record_to_spares();
  send_record_to_standbys();
  const std::vector<Seat> all = seats(*record_);
  for (std::size_t i = 0; i < all.size(); ++i) sessions_.send(round_[i], TakeSeat{all[i], record_->term});
}

void CoordinatorOrders::encode_record() { record_message_ = encode(ToAgent(KeepRecord{*record_})); }

void CoordinatorOrders::send_record_to_standbys() {
  for (std::size_t i = 0; i < std::min(round_.size(), kStandbys); ++i)
    if (ControlLink* link = sessions_.find(round_[i])) link->send(record_message_);
}

void CoordinatorOrders::send_record_to_spares() {
  const std::set<NodeId> seated(round_.begin(), round_.end());
  sessions_.for_each([&](NodeId node, ControlLink& link) {
    if (!seated.contains(node)) link.send(record_message_);
  });
}

// Electorates of earlier rounds count no more: nodes that were in those, and are not in this one, have no say.
void CoordinatorOrders::confirm_record() {
  if (record_->previous_electorates.empty()) return;
  record_->previous_electorates.clear();
  encode_record();
  send_record_to_spares();
}

void CoordinatorOrders::keep_range(const KeepRange& order) {
  sessions_.send_to_all(order);
  if (!record_) return;
  record_->resized = order.range;
  encode_record();
  outside_.resized = order.range;
  report_record();
}

void CoordinatorOrders::send_record_to_spare(NodeId node) {
  ControlLink* link = sessions_.find(node);
  if (!coordinator_ || !record_ || !link) return;
  if (std::find(round_.begin(), round_.end(), node) == round_.end()) link->send(record_message_);
}

}  // namespace ddprun::rendezvous

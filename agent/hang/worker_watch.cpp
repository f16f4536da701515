#include "agent/hang/worker_watch.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "agent/hang/worker_sight.h"
#include "agent/process/process_state.h"
#include "rendezvous/coordination/account/late.h"

namespace ddprun::agent {
namespace {

constexpr std::chrono::milliseconds kTellEvery{500};  // some become overdue just after the first
constexpr std::chrono::seconds kStandsStill{1};
constexpr std::chrono::seconds kStacksLimit{5}, kLastStacksLimit{1};
constexpr std::size_t kStandingMax = 8;   // of which stacks are taken before they are ended
constexpr std::size_t kSuspectsMax = 64;  // of which stacks are taken before their standings are told
// Older stacks are taken again; of one that stands for long after an eighth of that time.
constexpr std::chrono::seconds kFresh{8};
constexpr int kFreshShare = 8;
constexpr std::chrono::seconds kRecordsLimit{2}, kRecordFresh{2};
constexpr std::size_t kRecordBytesMax = 2 << 20;  // in one message, which has 4 MiB at most

// As it is sent, or more.
std::size_t about_bytes(const rendezvous::CollectiveRecord& record) {
  std::size_t bytes = 0;
  for (const rendezvous::RecordedGroup& group : record.groups) {
    bytes += 64 + group.name.size() + group.description.size() + 8 * group.ranks.size();
    for (const rendezvous::RecordedCall& call : group.calls)
      bytes += 64 + call.operation.size() + call.tensors.size() + call.type.size();
  }
  return bytes;
}

}  // namespace

WorkerWatch::WorkerWatch(asio::io_context& io, HangLimits limits, WorkersSeen workers, Hooks hooks)
    : workers_(std::move(workers)),
      hooks_(std::move(hooks)),
      hangs_(std::move(limits)),
      timer_(io),
      io_(io),
      records_(io) {}

void WorkerWatch::start(std::vector<std::string> environment) {
  stacks_.emplace(io_, StackOptions{.environment = std::move(environment)});
}

void WorkerWatch::begin_round(const rendezvous::Seat& seat) {
  seat_ = seat;
  suspended_ = false;  // none of its workers is stopped
  stacks_taken_.clear();
  known_stacks_.clear();
  known_records_.clear();
  lives_.clear();
  told_.clear();
  stand_.clear();
  hung_.reset();
}

void WorkerWatch::workers_run(const rendezvous::Seat& seat) {
  hangs_.begin_round(seat.workers, seat.world_size, seat.learned, Clock::now());
  workers_run_at_ = Clock::now();
  watch();
}

void WorkerWatch::watch() {
  if (!hooks_.running_round()) return;
  look();
  forget_moving();
  const TimePoint now = Clock::now();
  if (hangs_.any_overdue() && now - standings_sent_ >= kTellEvery) {
    standings_sent_ = now;
    tell_standings(Why::someone_is_late);
  }
  if (const auto learned = hangs_.news(now)) hooks_.tell_learned(*learned);
  timer_.expires_at(hangs_.next_look());
  timer_.async_wait([this](const asio::error_code& error) {
    if (!error) watch();
  });
}

void WorkerWatch::look() {
  const TimePoint now = Clock::now();
  std::map<int, WorkerSight> seen;
  for (const auto& [local_rank, pid] : workers_.running()) {
    WorkerSight& sight = seen.emplace(local_rank, sight_of(workers_.progress(local_rank))).first->second;
    const bool stands_still = sight.at && now - *sight.at >= kStandsStill;
    if (!stands_still) processor_wait_.forget(pid);
    sight.traced = stands_still && is_traced(pid);
    sight.starved = stands_still ? processor_wait_.since_last_look(pid) : Duration::zero();
  }
  hangs_.look(seen, now);
  hooks_.on_look(seen);
}

std::vector<rendezvous::Standing> WorkerWatch::standings() const {
  std::vector<rendezvous::Standing> out = hangs_.standings();
  const std::map<int, pid_t> running = workers_.running();
  std::size_t record_bytes = 0;
  for (rendezvous::Standing& one : out) {
    const auto worker = running.find(one.rank);
    if (one.age >= kStandsStill && worker != running.end()) add_process_state(worker->second, one);
    const KnownStacks* known = known_stacks(one.rank);
    one.stopped |= known && known->stopped;
    if (one.activity != rendezvous::Activity::wait && known && known->top && known->top->in_collective) {
      one.activity = rendezvous::Activity::wait;
      one.collective = known->top->collective;
    }
    const KnownRecord* recorded = known_record(one.rank);
    if (recorded && (record_bytes += about_bytes(recorded->record)) <= kRecordBytesMax) one.record = recorded->record;
    one.paused |= suspended_;
    one.works = one.activity != rendezvous::Activity::wait && !sign_of_life(one.rank).empty();
    one.rank += seat_.first_rank;
  }
  for (const int local_rank : workers_.ended_well())
    out.push_back({.rank = seat_.first_rank + local_rank, .activity = rendezvous::Activity::ended});
  return out;
}

void WorkerWatch::tell_standings(Why why) {
  if (seat_.round == 0 || looks_for_round_ == seat_.round) return;
  if (suspended_) return send_standings();  // nobody is late, and what is seen now says nothing about later
  const auto looks = std::make_shared<Looks>(Looks{seat_.round});
  const std::vector<rendezvous::Standing> all = hangs_.standings();
  look_at_stacks(all, looks);
  // One that waits for another node's rank may have begun to wait a moment after that node's ranks.
  if (why == Why::asked || std::any_of(all.begin(), all.end(), rendezvous::late_beside(all))) look_at_records(looks);
  if (looks->left == 0) return send_standings();
  looks_for_round_ = seat_.round;
}

// A program may not tell that it waits in a collective: its stack shows it. So whoever is late and does not wait is
// looked at first, all of them at once.
void WorkerWatch::look_at_stacks(const std::vector<rendezvous::Standing>& all, const std::shared_ptr<Looks>& looks) {
  std::vector<int> suspects;
  std::vector<pid_t> pids;
  std::vector<std::optional<TimePoint>> since;
  std::vector<bool> stopped;
  const std::map<int, pid_t> running = workers_.running();
  const auto late = rendezvous::late_beside(all);
  for (const rendezvous::Standing& one : all) {
    if (!late(one) || one.activity == rendezvous::Activity::wait || known_stacks(one.rank)) continue;
    const auto worker = running.find(one.rank);
    if (worker == running.end()) continue;
    if (suspects.size() >= kSuspectsMax) break;
    suspects.push_back(one.rank);
    pids.push_back(worker->second);
    since.push_back(hangs_.last_report(one.rank));
    stopped.push_back(process_state(pids.back()).letter == 'T');
  }
  if (suspects.empty() || stacks_->busy()) return;
  ++looks->left;
  stacks_->take(pids, kStacksLimit, [this, suspects, since, stopped, looks](const std::vector<ProcessStacks>& stacks) {
    if (hooks_.running_round() == looks->round)
      for (std::size_t i = 0; i < suspects.size(); ++i) learn_stacks(suspects[i], since[i], stacks[i], stopped[i]);
    end_look(*looks);
  });
}

// Of all workers, as the one that holds up the others may not be late itself. One that is stopped cannot answer.
void WorkerWatch::look_at_records(const std::shared_ptr<Looks>& looks) {
  if (!workers_.record_path || records_.busy()) return;
  std::map<int, std::string> paths;
  std::map<int, std::optional<TimePoint>> since;
  for (const auto& [local_rank, pid] : workers_.running()) {
    const std::string path = workers_.record_path(local_rank);
    const KnownRecord* known = known_record(local_rank);
    const bool fresh = known && Clock::now() - known->at < record_fresh(local_rank) / 2;
    if (fresh || !has_record(path) || process_state(pid).letter == 'T') continue;
    paths.emplace(local_rank, path);
    since.emplace(local_rank, hangs_.last_report(local_rank));
  }
  if (paths.empty()) return;
  const bool asked = records_.read(paths, kRecordsLimit, [this, since, looks](RecordReader::Records records) {
    const TimePoint now = Clock::now();
    if (hooks_.running_round() == looks->round)
      for (auto& [local_rank, record] : records)
        known_records_[local_rank] = {since.at(local_rank), now, std::move(record)};
    end_look(*looks);
  });
  if (asked) ++looks->left;
}

void WorkerWatch::end_look(Looks& looks) {
  if (--looks.left > 0) return;
  looks_for_round_ = 0;
  if (hooks_.running_round() != looks.round) return;
  look();
  send_standings();
}

const WorkerWatch::KnownRecord* WorkerWatch::known_record(int local_rank) const {
  const auto known = known_records_.find(local_rank);
  if (known == known_records_.end() || known->second.since != hangs_.last_report(local_rank)) return nullptr;
  return Clock::now() - known->second.at < record_fresh(local_rank) ? &known->second : nullptr;
}

// The others may wait for one rank's evaluation for long: what it costs to read them all grows no more then.
Duration WorkerWatch::record_fresh(int local_rank) const {
  return std::max<Duration>(kRecordFresh, hangs_.age(local_rank) / kFreshShare);
}

const WorkerWatch::KnownStacks* WorkerWatch::known_stacks(int local_rank) const {
  const auto known = known_stacks_.find(local_rank);
  if (known == known_stacks_.end() || known->second.since != hangs_.last_report(local_rank)) return nullptr;
  const Duration fresh = std::max<Duration>(kFresh, hangs_.age(local_rank) / kFreshShare);
  return Clock::now() - known->second.at < fresh ? &known->second : nullptr;
}

// Those that could not be had are tried again.
void WorkerWatch::learn_stacks(int local_rank, std::optional<TimePoint> since, const ProcessStacks& stacks,
                               bool stopped) {
  auto top = top_frame(stacks);
  if (!top) return;
  known_stacks_[local_rank] = {since, Clock::now(), stacks, std::move(top), stopped};
  learn_life(local_rank, stacks);
}

void WorkerWatch::send_standings() {
  std::vector<rendezvous::Standing> all = standings();
  told_.clear();
  for (const rendezvous::Standing& one : all) {
    const int local_rank = one.rank - seat_.first_rank;
    told_[local_rank] = {hangs_.last_report(local_rank), one.activity == rendezvous::Activity::wait};
  }
  hooks_.tell_standings(std::move(all));
}

// After Ctrl-Z nobody is late: the time of waiting begins anew.
void WorkerWatch::suspend(bool suspended) {
  suspended_ = suspended;
  workers_.signal_groups(suspended ? SIGSTOP : SIGCONT);
  if (suspended) return;
  hangs_.forgive(Clock::now());
  known_stacks_.clear();  // of workers that were stopped
}

// First of all its stack is taken, if it is not known.
void WorkerWatch::blame(int round, int rank, const std::string& text, bool of_all) {
  if (seat_.round != round || hooks_.running_round() != round) return;
  const int local_rank = rank - seat_.first_rank;
  const std::map<int, pid_t> running = workers_.running();
  const auto worker = running.find(local_rank);
  if (worker == running.end()) return;
  look();
  const Blamed blamed{round, local_rank, text, of_all, told_[local_rank]};
  if (const KnownStacks* known = known_stacks(local_rank))
    return on_culprits_stacks(blamed, ProcessStacks(known->stacks));
  stacks_->take({worker->second}, kStacksLimit, [this, blamed](const std::vector<ProcessStacks>& stacks) {
    on_culprits_stacks(blamed, stacks.front());
  });
}

// One that has gone on since is not to blame. If it is in a collective and was not told to be, it waits as the others
// do. In both cases the coordinator decides anew.
void WorkerWatch::on_culprits_stacks(const Blamed& blamed, const ProcessStacks& stacks) {
  const int local_rank = blamed.local_rank;
  if (hooks_.running_round() != blamed.round || !workers_.running().contains(local_rank)) return;
  look();
  if (hangs_.last_report(local_rank) != blamed.told.since) return tell_standings();
  if (!known_stacks(local_rank)) learn_stacks(local_rank, blamed.told.since, stacks, false);
  const auto top = top_frame(stacks);
  if (top && top->in_collective && !blamed.told.waits) return send_standings();
  HungWorker worker{blamed.round,
                    local_rank,
                    blamed.text + (top ? "; " + in_words(*top) : "") + what_lacks(local_rank),
                    blamed.of_all,
                    top ? top->function.substr(0, rendezvous::kPlaceMax) : "",
                    stacks};
  if (waits_for_it(worker, stacks, blamed.told.waits)) return;
  keep({local_rank}, {stacks});
  hung_ = std::move(worker);
  hooks_.on_hung(*hung_);
}

// Its PyTorch is older than 2.15, or its server could not be opened.
std::string WorkerWatch::what_lacks(int local_rank) const {
  if (!workers_.record_path || hangs_.activity(local_rank) == rendezvous::Activity::load) return {};
  const std::string path = workers_.record_path(local_rank);
  return has_groups(path) && !has_record(path) ? "; its record of collectives could not be read (PyTorch 2.15 has one)"
                                               : "";
}

// A stopped one does nothing at all: nothing is to be waited for.
bool WorkerWatch::waits_for_it(const HungWorker& worker, const ProcessStacks& stacks, bool in_collective) {
  const int local_rank = worker.local_rank;
  forget_moving();
  const std::vector<std::string>& known = seat_.learned.hung_at;
  const bool known_place = std::find(known.begin(), known.end(), worker.place) != known.end();
  const std::optional<Duration> patience = hangs_.patience(local_rank, known_place);
  const auto now = known_stacks_.find(local_rank);
  const bool stopped = now != known_stacks_.end() && now->second.stopped;
  Stands& stands = stand_.try_emplace(local_rank, Stands{hangs_.last_report(local_rank), worker.place}).first->second;
  if (!known_stacks(local_rank)) learn_life(local_rank, stacks);  // they could not be had
  const std::string sign = in_collective ? "" : sign_of_life(local_rank);
  if (patience && (stopped || (hangs_.age(local_rank) >= *patience && sign.empty()))) return false;
  const bool alive = patience && hangs_.age(local_rank) >= *patience;
  if (!stands.told && (told_places_.insert(worker.place).second || worker.place.empty())) {
    stands.told = true;
    hooks_.on_standing({local_rank, worker.how, patience, ""});
  }
  if (alive && !std::exchange(stands.told_life, true)) {
    stands.told = true;
    hooks_.on_standing({local_rank, worker.how, patience, sign});
  }
  return true;
}

void WorkerWatch::learn_life(int local_rank, const ProcessStacks& stacks) {
  const std::map<int, pid_t> running = workers_.running();
  const auto worker = running.find(local_rank);
  if (worker == running.end()) return;
  const TimePoint now = Clock::now();
  LifeSample sample{.at = now, .functions = functions_of_main_thread(stacks), .ran = now - workers_run_at_};
  sample.loads = hangs_.activity(local_rank) == rendezvous::Activity::load;
  add_from_proc(worker->second, sample);
  if (const KnownRecord* known = known_record(local_rank))
    for (const rendezvous::RecordedGroup& group : known->record.groups) sample.collectives += group.entered;
  const auto report = hangs_.last_report(local_rank);
  Life& life = lives_[local_rank];
  if (life.since != report) life = {report};
  life.signs.add(std::move(sample));
}

std::string WorkerWatch::sign_of_life(int local_rank) const {
  const auto life = lives_.find(local_rank);
  return life != lives_.end() && life->second.since == hangs_.last_report(local_rank) ? life->second.signs.in_words()
                                                                                      : "";
}

void WorkerWatch::forget_moving() {
  for (auto stands = stand_.begin(); stands != stand_.end();) {
    const auto& [local_rank, one] = *stands;
    const auto report = hangs_.last_report(local_rank);
    if (report == one.since) {
      ++stands;
      continue;
    }
    if (one.told && report && one.since) hooks_.on_moving(local_rank, *report - *one.since);
    stands = stand_.erase(stands);
  }
}

// Why they stand still is lost otherwise.
bool WorkerWatch::takes_stacks_before(std::function<bool()> then) {
  if (seat_.round == 0) return false;
  look();
  std::vector<int> standing;
  std::vector<pid_t> pids;
  const std::map<int, pid_t> running = workers_.running();
  for (const rendezvous::Standing& one : hangs_.standings()) {
    const auto worker = running.find(one.rank);
    if (!one.overdue || stacks_taken_.contains(one.rank) || standing.size() >= kStandingMax || worker == running.end())
      continue;
    if (const KnownStacks* known = known_stacks(one.rank)) {
      keep({one.rank}, {known->stacks});
      continue;
    }
    standing.push_back(one.rank);
    pids.push_back(worker->second);
  }
  if (standing.empty() || stacks_->busy()) return false;
  stacks_taken_.insert(standing.begin(), standing.end());
  stacks_->take(pids, kLastStacksLimit,
                [this, standing, then = std::move(then)](const std::vector<ProcessStacks>& stacks) {
                  if (then()) keep(standing, stacks);
                });
  return true;
}

void WorkerWatch::take_stacks(std::vector<pid_t> pids, Duration limit, AsyncStacks::OnTaken on_taken) {
  stacks_->take(std::move(pids), limit, std::move(on_taken));
}

void WorkerWatch::keep(const std::vector<int>& local_ranks, const std::vector<ProcessStacks>& stacks) {
  stacks_taken_.insert(local_ranks.begin(), local_ranks.end());
  hooks_.keep_stacks(local_ranks, stacks);
}

}  // namespace ddprun::agent

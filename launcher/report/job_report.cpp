#include "launcher/report/job_report.h"

#include <algorithm>
#include <climits>
#include <map>
#include <set>
#include <utility>

namespace ddprun::launcher {
namespace {

using rendezvous::KeptSteps;
using rendezvous::TimeAccount;
using rendezvous::TimeKind;
using std::chrono::milliseconds;

// What all agents say of a round.
struct ToldRound {
  int nodes = 0;
  milliseconds formed{};
  std::optional<milliseconds> started = {}, ended = {}, workers_gone = {};
  std::string failure_class = {}, reason = {};
  std::optional<int> failed_rank = {};
  std::string failure_text = {};
  std::map<int, std::string> hosts = {};  // of workers that have failed
  int teller = INT_MAX;                   // the group rank
  std::optional<LoggedEvent> times = {};
};

// From the first round that was formed after ddprun was started until its agents' last event.
struct ToldStart {
  milliseconds began{}, last{};
  std::map<int, ToldRound> rounds = {};
  std::set<std::pair<int, int>> seats = {};  // round and group rank
  std::optional<LoggedEvent> end = {};
};

bool is_end(const LoggedEvent& event) {
  return !event.of_worker && (event.state == "SUCCEEDED" || event.state == "FAILED");
}

bool has_times(const LoggedEvent& event) {
  return std::any_of(rendezvous::kTimeKinds.begin(), rendezvous::kTimeKinds.end(),
                     [&](const auto& one) { return event.more.contains(one.name + std::string("_ms")); });
}

void note_seat(ToldStart& start, const LoggedEvent& event) {
  const milliseconds waited = std::chrono::floor<milliseconds>(event.duration.value_or(Duration::zero()));
  if (start.rounds.empty() || event.round == start.rounds.begin()->first)
    start.began = std::max(milliseconds(0), std::min(start.rounds.empty() ? event.at : start.began, event.at - waited));
  const auto [round, fresh] =
      start.rounds.try_emplace(event.round, ToldRound{.nodes = event.nodes, .formed = event.at});
  if (!fresh) round->second.formed = std::min(round->second.formed, event.at);
}

std::string text_of(const LoggedEvent& event, const char* field) {
  const auto found = event.more.find(field);
  return found == event.more.end() ? std::string() : found->second;
}

void note_failure(ToldRound& round, const LoggedEvent& event) {
  round.failure_class = text_of(event, "failure_class");
  round.failure_text = text_of(event, "failure_text");
  if (const auto rank = event.number("failed_rank"); rank && *rank <= INT_MAX)
    round.failed_rank = static_cast<int>(*rank);
}

void note_end(ToldRound& round, const LoggedEvent& event) {
  if (round.ended) return;
  round.ended = event.at;
  round.reason = text_of(event, "reason");
  note_failure(round, event);
}

void note_job_end(ToldRound& round, const LoggedEvent& event) {
  round.reason = event.error.empty() ? "all workers succeeded" : event.error;
  note_failure(round, event);
}

void note_times(ToldRound& round, const LoggedEvent& event) {
  const int rank = event.group_rank.value_or(INT_MAX - 1);
  if (!has_times(event) || rank >= round.teller) return;
  round.teller = rank;
  round.times = event;
}

void note(ToldStart& start, const LoggedEvent& event) {
  start.last = event.at;
  if (is_end(event)) start.end = event;
  const auto found = start.rounds.find(event.round);
  if (found == start.rounds.end()) return;
  ToldRound& round = found->second;
  if (event.of_worker && event.state == "START") round.started = event.at;
  if (event.of_worker && event.state != "START") round.workers_gone = event.at;
  if (event.of_worker && event.state == "FAILED" && event.rank)
    round.hosts.try_emplace(*event.rank, text_of(event, "hostname"));
  if (event.state == "ROUND_ENDED") note_end(round, event);
  if (is_end(event) && !round.ended) note_job_end(round, event);
  if (event.state == "ROUND_ENDED" || is_end(event)) note_times(round, event);
}

// A seat that was given before is one of another start.
std::vector<ToldStart> starts_of(const std::vector<LoggedEvent>& events, const std::string& run_id) {
  std::vector<ToldStart> out;
  for (const LoggedEvent& event : events) {
    if (event.run_id != run_id) continue;
    if (!event.of_worker && event.state == "RENDEZVOUS" && event.round > 0) {
      const std::pair<int, int> seat(event.round, event.group_rank.value_or(0));
      if (out.empty() || out.back().seats.contains(seat)) out.emplace_back();
      out.back().seats.insert(seat);
      out.back().end.reset();
      note_seat(out.back(), event);
    }
    if (!out.empty()) note(out.back(), event);
  }
  return out;
}

void take(TimeAccount& account, TimeKind kind, Duration spent, Duration& left) {
  const Duration part = std::clamp(spent, Duration::zero(), left);
  account[kind] += part;
  left -= part;
}

// As told, within the time between the round's begin and its end. Where nothing was told, the workers' start is known.
TimeAccount times_of(const ToldRound& round, Duration length) {
  TimeAccount out;
  Duration left = length;
  if (round.times) {
    for (const TimeKind kind : {TimeKind::start, TimeKind::restore, TimeKind::save, TimeKind::productive,
                                TimeKind::lost_work, TimeKind::hang})
      take(out, kind, round.times->time(rendezvous::name_of(kind) + std::string("_ms")), left);
    take(out, TimeKind::stop, left, left);
  } else {
    take(out, TimeKind::start, round.started ? Duration(*round.started - round.formed) : left, left);
    take(out, TimeKind::productive, left, left);
  }
  return out;
}

std::optional<KeptSteps> kept_steps(const ToldRound& round) {
  if (!round.times) return {};
  const auto last = round.times->number("last_step"), steps = round.times->number("steps");
  if (!last || !steps || *steps == 0) return {};
  return KeptSteps{*last, *steps, round.times->time("steps_ms")};
}

// When it ended: of the last round only the job's end is told, after the workers' stop.
milliseconds end_of(const ToldRound& round, milliseconds formed, milliseconds until) {
  if (round.ended) return std::clamp(*round.ended, formed, until);
  if (!round.times) return until;
  Duration told{};
  for (const auto& one : rendezvous::kTimeKinds) told += round.times->time(one.name + std::string("_ms"));
  return std::min(formed + std::chrono::ceil<milliseconds>(told), until);
}

class Folder {
 public:
  explicit Folder(JobReport& report) : report_(report) {}

  void add(const ToldStart& start) {
    ++report_.starts;
    milliseconds at = start.began;
    for (auto round = start.rounds.begin(); round != start.rounds.end(); ++round) {
      const auto next = std::next(round);
      const milliseconds formed = std::clamp(round->second.formed, at, std::max(at, start.last));
      if (round == start.rounds.begin()) wait_for_first(formed - at);
      const milliseconds until = next == start.rounds.end()
                                     ? std::max(start.last, formed)
                                     : std::clamp(next->second.formed, formed, std::max(formed, start.last));
      add(round->first, round->second, formed, until, next == start.rounds.end() && start.end);
      at = until;
    }
  }

 private:
  void wait_for_first(Duration waited) { report_.spent[TimeKind::waiting] += waited; }

  // `last`: the job has ended after it, so no node is awaited any more.
  void add(int number, const ToldRound& told, milliseconds formed, milliseconds until, bool last) {
    const milliseconds ended = end_of(told, formed, until);
    ReportedRound out{.start = report_.starts,
                      .number = number,
                      .nodes = told.nodes,
                      .formed = formed,
                      .ended = ended,
                      .failure_class = told.failure_class,
                      .failed_rank = told.failed_rank,
                      .reason = told.reason};
    if (const auto host = told.hosts.find(told.failed_rank.value_or(-1)); host != told.hosts.end())
      out.host = host->second;
    out.story = told.failure_text;
    lose_from_earlier(told);
    out.spent = times_of(told, ended - formed);
    const bool by_job = last && !told.ended;
    const milliseconds stopped = by_job ? until : std::clamp(told.workers_gone.value_or(ended), ended, until);
    out.spent[TimeKind::stop] += stopped - ended;
    out.spent[TimeKind::waiting] += until - stopped;
    report_.spent += out.spent;
    if (!report_.rounds.empty())
      report_.rounds.back().lost += out.spent[TimeKind::start] + out.spent[TimeKind::restore];
    for (const TimeKind kind : {TimeKind::lost_work, TimeKind::hang, TimeKind::stop, TimeKind::waiting})
      out.lost += out.spent[kind];
    report_.rounds.push_back(std::move(out));
    if (const auto steps = kept_steps(told)) {
      kept_ = *steps;
      kept_by_ = report_.rounds.size() - 1;
    }
  }

  void lose_from_earlier(const ToldRound& told) {
    const auto first = told.times ? told.times->number("first_step") : std::nullopt;
    if (!first || !kept_by_) return;
    ReportedRound& before = report_.rounds[*kept_by_];
    const Duration moved = before.spent.move(TimeKind::productive, TimeKind::lost_work, kept_.lost_from(*first));
    before.lost += moved;
    report_.spent.move(TimeKind::productive, TimeKind::lost_work, moved);
  }

  JobReport& report_;
  KeptSteps kept_ = {};
  std::optional<std::size_t> kept_by_ = {};  // an index of rounds
};

void add_progress(const std::vector<LoggedEvent>& events, JobReport& out) {
  for (const LoggedEvent& event : events) {
    if (event.run_id != out.run_id || event.of_worker) continue;
    if (const auto snapshot = event.number("snapshot_step")) {
      if (out.snapshot_step != snapshot) out.snapshot_round = event.round;
      out.snapshot_step = snapshot;
    }
    if (event.state != "PROGRESS") continue;
    out.progress.push_back({event.at, event.number("step").value_or(0), event.real("steps_per_second"),
                            event.real("loss"), event.number("total_steps")});
  }
}

std::string straggler_in_words(const LoggedEvent& event) {
  return "rank " + text_of(event, "slow_rank") + (text_of(event, "phase") == "load" ? " loads " : " computes ") +
         text_of(event, "ratio") + "x slower than the median";
}

// A new start of the job: its first node says so, or in a file of another one that.
bool begins_start(const LoggedEvent& event, const JobReport& so_far) {
  if (text_of(event, "command").empty()) return false;
  return so_far.command.empty() || event.group_rank.value_or(0) == 0 || text_of(event, "hostname") == so_far.host;
}

// What is told of the job's last start besides its rounds.
void add_facts(const std::vector<LoggedEvent>& events, JobReport& out) {
  const int last_round = out.rounds.empty() ? 0 : out.rounds.back().number;
  for (const LoggedEvent& event : events) {
    if (event.run_id != out.run_id) continue;
    if (begins_start(event, out)) {
      out.command = text_of(event, "command");
      out.host = text_of(event, "hostname");
      out.ranks = 0;
      out.failure.clear();
      out.stacks.clear();
    }
    const bool in_last_round = event.round == last_round;
    if (event.of_worker && in_last_round && event.rank)
      out.ranks = std::max({out.ranks, *event.rank + 1, event.role_world_size.value_or(0)});
    if (event.state == "STRAGGLER") out.stragglers.push_back({event.at, straggler_in_words(event)});
    if (event.state == "REPORT") out.failure = text_of(event, "text");
    if (event.state == "STACKS" && in_last_round)
      out.stacks.push_back({static_cast<int>(event.number("rank").value_or(0)), text_of(event, "stacks")});
  }
}

}  // namespace

std::vector<std::string> jobs_of(const std::vector<LoggedEvent>& events) {
  std::vector<std::string> out;
  for (const LoggedEvent& event : events)
    if (std::find(out.begin(), out.end(), event.run_id) == out.end()) out.push_back(event.run_id);
  return out;
}

std::optional<JobReport> report_of(const std::vector<LoggedEvent>& events, const std::string& run_id) {
  const std::vector<ToldStart> starts = starts_of(events, run_id);
  if (starts.empty()) return {};
  JobReport out{.run_id = run_id, .began = starts.front().began, .last = starts.back().last};
  if (const auto& end = starts.back().end) {
    out.ended = true;
    out.succeeded = end->state == "SUCCEEDED";
    out.error = end->error;
    out.stopped = text_of(*end, "stopped") == "true";
  }
  Folder folder(out);
  for (const ToldStart& start : starts) folder.add(start);
  add_progress(events, out);
  add_facts(events, out);
  return out;
}

}  // namespace ddprun::launcher

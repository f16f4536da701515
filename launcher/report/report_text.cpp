#include "launcher/report/report_text.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <ctime>
#include <map>
#include <span>

#include <nlohmann/json.hpp>

#include "rendezvous/base/duration_text.h"
#include "rendezvous/base/json_text.h"
#include "rendezvous/base/spelling.h"

namespace ddprun::launcher {
namespace {

using rendezvous::TimeAccount;
using rendezvous::TimeKindName;
using Json = nlohmann::ordered_json;

constexpr std::size_t kPageSamplesMax = 1000, kPageMarksMax = 100, kPageRoundsMax = 200;
constexpr std::size_t kPageFailureMax = 64 << 10;  // bytes

double seconds(Duration time) { return std::chrono::duration<double>(time).count(); }

__attribute__((format(printf, 1, 2))) std::string format(const char* text, ...) {
  char out[512];
  va_list values;
  va_start(values, text);
  std::vsnprintf(out, sizeof out, text, values);
  va_end(values);
  return out;
}

std::string count_of(std::size_t count, const char* what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

std::string state_of(const JobReport& report) {
  if (!report.ended) return "its end is not in the file, so the account ends with the last event";
  return report.succeeded ? "succeeded" : (report.stopped ? "stopped: " : "failed: ") + visible(report.error);
}

// From which a new start of the job goes on; empty: none is known.
std::string newest_snapshot(const JobReport& report) {
  std::string out = visible(report.snapshot_file);
  if (report.snapshot_step)
    out += (out.empty() ? "step " : ", step ") + std::to_string(*report.snapshot_step) + ", reported in round " +
           std::to_string(report.snapshot_round);
  if (out.empty()) return {};
  return "newest snapshot: " + out + (report.succeeded ? "\n" : "; a program that loads it goes on from there\n");
}

// "rank 1 on n0 was killed by SIGKILL"
std::string story_of(const ReportedRound& round) {
  if (!round.story.empty()) return visible(round.story);
  return round.failed_rank ? "rank " + std::to_string(*round.failed_rank) + " failed" : visible(round.reason);
}

// "crash: rank 1 on n0 was killed by SIGKILL"
std::string cause_of(const ReportedRound& round) {
  if (!round.failure_class.empty()) return round.failure_class + (round.failed_rank ? ": " + story_of(round) : "");
  return round.reason.empty() ? "-" : visible(round.reason);
}

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

Json spent_in(const TimeAccount& spent) {
  Json out = Json::object();
  for (const TimeKindName& one : rendezvous::kTimeKinds) out[one.name] = seconds(spent[one.kind]);
  return out;
}

Json round_in(const ReportedRound& round, const JobReport& report) {
  Json out{{"start", round.start}, {"round", round.number}, {"nodes", round.nodes}};
  out["began_s"] = seconds(round.formed - report.began);
  out["lasted_s"] = seconds(round.ended - round.formed);
  if (!round.failure_class.empty()) out["failure_class"] = round.failure_class;
  if (round.failed_rank) out["failed_rank"] = *round.failed_rank;
  if (!round.reason.empty()) out["reason"] = round.reason;
  out["lost_s"] = seconds(round.lost);
  out["spent_s"] = spent_in(round.spent);
  return out;
}

// A failure's class, or words; a job that went on has no cause of its end.
std::string page_cause(const ReportedRound& round) {
  return !round.failure_class.empty() ? round.failure_class : round.reason.empty() ? "not known" : round.reason;
}

// Without what is less than a tenth of a second.
Json shown_times(const TimeAccount& spent) {
  Json out = Json::object();
  for (const TimeKindName& one : rendezvous::kTimeKinds)
    if (const double time = seconds(spent[one.kind]); time >= 0.1) out[one.name] = time;
  return out;
}

// Several rounds in a row, of which nothing is told but what they have in common.
Json merged_rounds(std::span<const ReportedRound> rounds) {
  TimeAccount spent;
  std::map<std::string, int> causes;
  for (const ReportedRound& round : rounds) {
    spent += round.spent;
    ++causes[page_cause(round)];
  }
  return {{"first", rounds.front().number},
          {"last", rounds.back().number},
          {"start", rounds.front().formed.count()},
          {"end", rounds.back().ended.count()},
          {"causes", causes},
          {"story", ""},
          {"rank", nullptr},
          {"node", ""},
          {"spent", shown_times(spent)}};
}

// All of the last ones, and the others in groups: a page is to be sent.
Json page_rounds(const JobReport& report) {
  const std::span<const ReportedRound> all(report.rounds);
  const std::size_t older = all.size() > kPageRoundsMax ? all.size() - kPageRoundsMax / 2 : 0;
  const std::size_t together = older / (kPageRoundsMax / 2) + 1;
  Json out = Json::array();
  for (std::size_t i = 0; i < older; i += together)
    out.push_back(merged_rounds(all.subspan(i, std::min(together, older - i))));
  for (const ReportedRound& round : all.subspan(older)) {
    Json one = merged_rounds({&round, 1});
    one["story"] = story_of(round);
    one["rank"] = or_null(round.failed_rank);
    one["node"] = round.host;
    out.push_back(std::move(one));
  }
  return out;
}

Json page_marks(const JobReport& report) {
  Json out = Json::array();
  const ReportedRound* before = nullptr;
  for (const ReportedRound& round : report.rounds) {
    if (before && before->nodes != round.nodes)
      out.push_back({round.formed.count(), "resize",
                     std::to_string(before->nodes) + " to " + std::to_string(round.nodes) + " nodes"});
    else if (before)
      out.push_back({round.formed.count(), "restart", "round " + std::to_string(round.number)});
    if (!round.failure_class.empty()) out.push_back({round.ended.count(), "failure", story_of(round)});
    before = &round;
  }
  for (const ReportedStraggler& one : report.stragglers)
    out.push_back({one.at.count(), "straggler", visible(one.text)});
  std::stable_sort(out.begin(), out.end(), [](const Json& a, const Json& b) { return a[0] < b[0]; });
  if (out.size() > kPageMarksMax) out.erase(out.begin(), out.end() - kPageMarksMax);
  return out;
}

// How the job is, as status tells it (agent/status/job_condition.h).
Json page_condition(const JobReport& report) {
  const auto condition = [](const char* kind, const char* level, const std::string& why, const std::string& text) {
    return Json{{"kind", kind}, {"level", level}, {"seconds", nullptr}, {"why", why}, {"text", text}};
  };
  if (!report.ended) return condition("unknown", "attention", "", "its end is not in the file");
  if (report.stopped) return condition("stopped", "over", visible(report.error), "stopped: " + visible(report.error));
  if (!report.succeeded) return condition("failed", "bad", visible(report.error), "failed: " + visible(report.error));
  return condition("ended", "over", "", "ended well after " + duration_text(seconds(report.last - report.began)));
}

// The failure's block: what was printed, and the stacks of those that hung.
std::string failure_of(const JobReport& report) {
  if (!report.ended || report.succeeded || report.stopped) return {};
  std::string out = report.failure;
  if (report.rounds.empty() || report.rounds.back().failure_class != "hang") return visible_lines(out);
  for (const ReportedStacks& one : report.stacks) {
    if (out.size() + one.text.size() > kPageFailureMax) break;
    out += (out.empty() ? "" : "\n") + ("rank " + std::to_string(one.rank)) + " was here:\n" + one.text;
  }
  return visible_lines(out);
}

Json page_report(const JobReport& report) {
  return {{"command", report.command},    {"host", report.host},   {"began", report.began.count()},
          {"ended", report.last.count()}, {"ranks", report.ranks}, {"failure", failure_of(report)}};
}

std::string local_time(std::chrono::milliseconds at) {
  const std::time_t whole = std::chrono::floor<std::chrono::seconds>(at).count();
  std::tm parts{};
  localtime_r(&whole, &parts);
  char out[32];
  std::strftime(out, sizeof out, "%F %T", &parts);
  return out;
}

// "ddprun train.py --lr 0.1, on n0, 4 ranks, from 2026-01-01 10:00:00 to 2026-01-01 13:12:00"; empty: an older ddprun's
// events do not tell it.
std::string what_ran(const JobReport& report) {
  if (report.command.empty()) return {};
  return visible(report.command) + ", on " + visible(report.host) + ", " +
         count_of(static_cast<std::size_t>(report.ranks), "rank") + ", from " + local_time(report.began) + " to " +
         local_time(report.last) + "\n";
}

// Evenly thinned, with the last one.
Json page_samples(const std::vector<ReportedProgress>& progress) {
  const std::size_t every = progress.size() / kPageSamplesMax + 1;
  Json out = Json::array();
  for (std::size_t i = 0; i < progress.size(); ++i) {
    if (i % every != 0 && i + 1 != progress.size()) continue;
    const ReportedProgress& one = progress[i];
    out.push_back({one.at.count(), one.step, or_null(one.steps_per_second), or_null(one.loss), Json()});
  }
  return out;
}

}  // namespace

std::string to_text(const JobReport& report) {
  const double all = seconds(report.spent.total());
  std::string out = "job " + visible(report.run_id) + ": " +
                    count_of(static_cast<std::size_t>(report.starts), "start") + ", " +
                    count_of(report.rounds.size(), "round") + "; " + state_of(report) + "\n" + what_ran(report);
  if (const std::string failure = failure_of(report); !failure.empty()) out += "\n" + failure + "\n";
  out += newest_snapshot(report) + "\n";
  for (const TimeKindName& one : rendezvous::kTimeKinds) {
    const double spent = seconds(report.spent[one.kind]);
    out += format("%-10s %12.1f s %6.2f %%  %s\n", one.name, spent, all > 0 ? 100 * spent / all : 0, one.words);
  }
  out += format("%-10s %12.1f s           ETTR (productive / total) %.4f\n\n", "total", all, report.spent.ettr());
  out += "start  round  nodes      began s     lasted s       lost s  ended by\n";
  for (const ReportedRound& round : report.rounds)
    out += format("%5d  %5d  %5d %12.1f %12.1f %12.1f  ", round.start, round.number, round.nodes,
                  seconds(round.formed - report.began), seconds(round.ended - round.formed), seconds(round.lost)) +
           cause_of(round) + "\n";
  return out;
}

std::string to_json(const JobReport& report) {
  Json out{{"run_id", report.run_id}, {"starts", report.starts}, {"ended", report.ended}};
  if (report.ended) out["succeeded"] = report.succeeded;
  if (!report.error.empty()) out["error"] = report.error;
  out["total_s"] = seconds(report.spent.total());
  out["ettr"] = report.spent.ettr();
  out["spent_s"] = spent_in(report.spent);
  if (report.snapshot_step) {
    out["snapshot_step"] = *report.snapshot_step;
    out["snapshot_round"] = report.snapshot_round;
  }
  if (!report.snapshot_file.empty()) out["snapshot_file"] = report.snapshot_file;
  out["rounds"] = Json::array();
  for (const ReportedRound& round : report.rounds) out["rounds"].push_back(round_in(round, report));
  return json_text(out, {.ascii = true}) + "\n";
}

std::string to_page_data(const JobReport& report) {
  Json time = spent_in(report.spent);
  time["total"] = seconds(report.spent.total());
  time["useful_share"] = report.spent.ettr();
  Json status{{"run_id", report.run_id}, {"finished", true}, {"starts", report.starts}, {"time", std::move(time)}};
  status["state"] = !report.ended      ? "not ended in the file"
                    : report.succeeded ? "succeeded"
                    : report.stopped   ? "stopped"
                                       : "failed";
  if (!report.error.empty()) status["error"] = report.error;
  if (!report.rounds.empty()) status["round"] = report.rounds.back().number;
  if (!report.progress.empty()) {
    status["step"] = report.progress.back().step;
    status["steps_per_second"] = or_null(report.progress.back().steps_per_second);
    status["total_steps"] = or_null(report.progress.back().total_steps);
    status["loss"] = or_null(report.progress.back().loss);
  }
  status["snapshot_step"] = or_null(report.snapshot_step);
  status["condition"] = page_condition(report);
  status["report"] = page_report(report);
  const Json out{{"now", report.last.count()},
                 {"status", std::move(status)},
                 {"samples", page_samples(report.progress)},
                 {"rounds", page_rounds(report)},
                 {"marks", page_marks(report)}};
  return json_text(out);
}

}  // namespace ddprun::launcher

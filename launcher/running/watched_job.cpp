#include "launcher/running/watched_job.h"

#include <filesystem>
#include <thread>
#include <utility>
#include <variant>

#include "launcher/config/inputs.h"
#include "launcher/jobs/job_refused.h"
#include "launcher/running/job_facts.h"
#include "launcher/view/shown_condition.h"
#include "rendezvous/base/error.h"
#include "rendezvous/base/spelling.h"

namespace ddprun::launcher {
namespace {

// A job that was started without a file has no record; an agent knows its own.
JobFacts running_facts(LiveJob job, const std::string& name) {
  JobFacts facts{.live = job.status(), .has_record = false};
  if (!facts.live.is_object()) throw Error("cannot ask the job " + name, "it has just ended");
  facts.id = facts.live.value("run_id", name);
  return facts;
}

// Without an answer its record still says much.
JobFacts with_live(const JobRecord& record, const std::vector<RunningAgent>& agents) {
  JobFacts facts = facts_of(record);
  if (is_ended(state_of(facts))) return facts;
  try {
    if (const auto* agent = agent_of(agents, record)) facts.live = LiveJob(*agent).status();
  } catch (const Error&) {
    facts.live = {};
  }
  return facts;
}

std::int64_t submitted_ms(const JobRecord& record) {
  const nlohmann::json submitted = record.submitted();
  return submitted.is_object() ? submitted.value("at", std::int64_t{0}) : 0;
}

// Without a name: the job that was started last.
JobFacts newest_status(const std::vector<RunningAgent>& agents) {
  const std::vector<JobRecord> records = records_if_any();
  const RunningAgent* agent = newest(agents);
  if (!agent && records.empty()) throw JobRefused("no job of yours runs on this machine, and none has been submitted.");
  if (!agent) return facts_of(records.front());
  if (const auto record = record_above(*agent)) return with_live(*record, agents);
  const bool is_older = !records.empty() && started_ms(*agent) < submitted_ms(records.front());
  return is_older ? with_live(records.front(), agents) : running_facts(LiveJob(*agent), agent->address.run_id);
}

std::optional<JobRecord> record_called(const std::string& id) {
  auto found = find_record(records_folder(own_environment()), id);
  auto* record = std::get_if<JobRecord>(&found);
  return record ? std::optional(std::move(*record)) : std::nullopt;
}

}  // namespace

JobRecord record_named(const JobWords& words) {
  const std::filesystem::path records = records_folder(own_environment());
  const std::vector<JobRecord> all = all_records(records);
  if (words.handle.empty() && !all.empty()) return all.front();
  auto found = find_record(records, words.handle);
  if (const auto* sentence = std::get_if<std::string>(&found)) throw JobRefused(*sentence);
  return std::get<JobRecord>(std::move(found));
}

JobFacts status_of(const JobWords& words) {
  if (!words.access.empty()) return running_facts(LiveJob(words), words.handle);
  const std::vector<RunningAgent> agents = own_agents();
  if (words.handle.empty()) return newest_status(agents);
  const Choice choice = choose_job(agents, words.handle);
  if (choice.agent && !record_above(*choice.agent)) return running_facts(LiveJob(*choice.agent), words.handle);
  try {
    return with_live(record_named(words), agents);
  } catch (const JobRefused& refused) {
    if (agents.empty()) throw;
    const std::string none =
        records_if_any().empty() ? "no job is called " + visible(words.handle) + "." : refused.what();
    throw JobRefused(none + " Running here: " + listed(job_ids(agents), "and") + ".");
  }
}

WatchedJob::WatchedJob(const JobWords& words) : facts_(status_of(words)) {
  if (facts_.has_record)
    record_ = record_called(facts_.id);
  else if (words.access.empty())
    job_.emplace(JobWords{.command = words.command, .handle = facts_.id});
  else
    job_.emplace(words);
}

StatusLook WatchedJob::look(std::size_t columns) {
  if (!std::exchange(is_first_, false)) ask();
  const std::string state = state_of(facts_);
  const Style style = facts_.live.is_object() ? shown_condition(facts_.live).style : Style::plain;
  return {status_text(facts_, columns), style, has_gone_ || is_ended(state) || is_unknown(state)};
}

// An agent that is busy, or a coordinator that is being elected, answers later: what is shown says why it is old.
void WatchedJob::ask() try {
  if (record_) {
    facts_ = with_live(*record_, own_agents());
    return;
  }
  nlohmann::json live = job_->status();
  if (live.is_null()) return end();
  facts_.live = std::move(live);
  failures_ = 0;
} catch (const Error& error) {
  if (record_ || ++failures_ > kFailuresMax) throw;
  facts_.live["condition"] = {{"kind", "unknown"}, {"level", "attention"}, {"text", error.what()}};
}

// The job's ddprun writes its record last.
void WatchedJob::end() {
  has_gone_ = true;
  for (int i = 0; i < kRecordLooks; ++i) {
    const std::string run_id = facts_.live.value("run_id", facts_.id);
    if (const auto record = record_called(run_id); record && is_ended(state_of(recorded_facts(*record)))) {
      facts_ = recorded_facts(*record);
      return;
    }
    std::this_thread::sleep_for(kRecordEvery);
  }
  facts_.live["condition"] = {{"kind", "ended"}, {"level", "over"}, {"text", "ended"}};
  facts_.live["ranks"] = nlohmann::json::array();
  facts_.live["waits_for"]["text"] = "";
}

}  // namespace ddprun::launcher

#include "launcher/running/live_job.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <tuple>

#include "agent/process/process_table.h"
#include "launcher/config/inputs.h"
#include "launcher/config/machine.h"
#include "launcher/jobs/job_refused.h"
#include "rendezvous/base/error.h"
#include "rendezvous/base/json_text.h"
#include "rendezvous/base/spelling.h"

namespace ddprun::launcher {
namespace {

constexpr int kStatusSeconds = 5, kStacksSeconds = 15, kActSeconds = 10, kLogSeconds = 10;

// A record's, where it runs; else the agent that the word means.
RunningAgent agent_for(const std::string& job, Purpose purpose) {
  const std::vector<RunningAgent> agents = own_agents();
  if (job.empty() && purpose == Purpose::look && newest(agents)) return *newest(agents);
  const Choice choice = choose_job(agents, job, purpose);
  if (choice.agent) return *choice.agent;
  if (job.empty() && purpose == Purpose::act) throw JobRefused(choice.complaint);
  const auto found = find_record(records_folder(own_environment()), job);
  const auto* record = std::get_if<JobRecord>(&found);
  if (!record) throw JobRefused(choice.complaint);
  if (const RunningAgent* agent = agent_of(agents, *record)) return *agent;
  throw JobRefused(record->id() + " does not run on this machine.");
}

}  // namespace

std::string own_name() {
  const passwd* user = getpwuid(geteuid());
  return (user ? user->pw_name : "user " + std::to_string(geteuid())) + " on " + host_name();
}

bool runner_is_gone(const nlohmann::json& status) {
  if (!status.is_object() || status.value("host", "") != host_name()) return false;
  const auto process = agent::task_stat(status.value("pid", 0));
  return !process || process->is_dead() || process->start_time != status.value("pid_start", 0ULL);
}

std::vector<JobRecord> records_if_any() try {
  return all_records(records_folder(own_environment()));
} catch (const UsageError&) {
  return {};
}

const RunningAgent* agent_of(const std::vector<RunningAgent>& agents, const JobRecord& record) {
  const nlohmann::json status = record.status();
  if (!status.is_object() || status.value("host", "") != host_name() || runner_is_gone(status)) return nullptr;
  return agent_below(agents, status.value("pid", 0));
}

std::optional<JobRecord> record_above(const RunningAgent& agent) {
  for (const JobRecord& record : records_if_any())
    if (agent_of({agent}, record)) return record;
  return {};
}

const RunningAgent* newest(const std::vector<RunningAgent>& agents) {
  const auto order = [](const RunningAgent& one) {
    return std::tuple(one.user == geteuid(), one.accepts, started_ms(one));
  };
  const auto last =
      std::max_element(agents.begin(), agents.end(), [&](const auto& a, const auto& b) { return order(a) < order(b); });
  return last == agents.end() ? nullptr : &*last;
}

LiveJob::LiveJob(const JobWords& words, Purpose purpose) {
  if (words.access.empty())
    agent_ = agent_for(words.handle, purpose);
  else
    remote_.emplace(words.access, words.handle);
}

// If this agent has ended, another one of its job may be here.
std::string LiveJob::ask(const std::string& line, int limit_seconds) {
  if (remote_) return remote_->ask(line);
  try {
    if (std::string answer = launcher::ask(*agent_, line, limit_seconds); !answer.empty()) return answer;
  } catch (const Error&) {
    if (agent_->process == 0 || started_ms(*agent_) != 0) throw;
  }
  const std::vector<RunningAgent> agents = own_agents();
  const auto other = std::find_if(agents.begin(), agents.end(), [&](const RunningAgent& one) {
    return one.user == agent_->user && one.address.run_id == agent_->address.run_id &&
           one.address.agent != agent_->address.agent;
  });
  if (other == agents.end()) return {};
  agent_ = *other;
  return launcher::ask(*agent_, line, limit_seconds);
}

nlohmann::json LiveJob::status() {
  nlohmann::json answer = parse_json(ask(agent::kAskStatus, kStatusSeconds));
  return answer.is_object() ? answer : nlohmann::json();
}

// An older agent's answer is empty, as if the job had ended.
nlohmann::json LiveJob::status_with_history() {
  if (!tells_history_) return status();
  nlohmann::json answer = parse_json(ask(agent::kAskHistory, kStatusSeconds));
  if (answer.is_object()) return answer;
  answer = status();
  tells_history_ = answer.is_null();
  return answer;
}

std::string LiveJob::stacks() { return ask(agent::kAskStacks, kStacksSeconds); }

rendezvous::ActResult LiveJob::act(const rendezvous::Act& act) {
  return agent::parse_act_result(ask(agent::act_line(act), kActSeconds));
}

std::optional<agent::LogAnswer> LiveJob::log(const agent::LogRequest& request) {
  return agent::parse_log_answer(ask(agent::log_line(request), kLogSeconds));
}

}  // namespace ddprun::launcher

// A running job that can be asked: the one that a user's words mean, by an agent on this machine or at its endpoint.
#pragma once
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "agent/status/act_request.h"
#include "agent/status/log_request.h"
#include "launcher/jobs/job_record.h"
#include "launcher/jobs/job_words.h"
#include "launcher/running/remote_job.h"
#include "launcher/running/running_jobs.h"

namespace ddprun::launcher {

// Who acts on a job from here: "alice on login1".
std::string own_name();
// The process of `ddprun run` that wrote a record's status.json has ended. On another machine it cannot be seen.
bool runner_is_gone(const nlohmann::json& status);
// The records of this user; none where there is no folder for them.
std::vector<JobRecord> records_if_any();
// The record of the job that the agent belongs to, if it has one.
std::optional<JobRecord> record_above(const RunningAgent& agent);
// The agent here of a record's job; null: none.
const RunningAgent* agent_of(const std::vector<RunningAgent>& agents, const JobRecord& record);
// Of several, the one whose job was started last, of this user's if it has any; null: there is none.
const RunningAgent* newest(const std::vector<RunningAgent>& agents);

class LiveJob {
 public:
  // `words`: of status or top. Without a name it is the job that was started last, to act the only one (choose_job).
  // Throws JobRefused, UsageError.
  explicit LiveJob(const JobWords& words, Purpose purpose = Purpose::look);
  explicit LiveJob(RunningAgent agent) : agent_(std::move(agent)) {}

  // Answers of an agent (agent_socket.h); null or empty: the job has ended. Throws Error.
  nlohmann::json status();
  // With "history", if this version of the agent tells it.
  nlohmann::json status_with_history();
  std::string stacks();
  rendezvous::ActResult act(const rendezvous::Act& act);
  std::optional<agent::LogAnswer> log(const agent::LogRequest& request);

 private:
  std::string ask(const std::string& line, int limit_seconds);

  std::optional<RemoteJob> remote_;
  std::optional<RunningAgent> agent_;
  bool tells_history_ = true;
};

}  // namespace ddprun::launcher

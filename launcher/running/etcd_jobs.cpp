#include "launcher/running/etcd_jobs.h"

#include "launcher/jobs/job_refused.h"
#include "launcher/view/table.h"
#include "rendezvous/base/duration_text.h"
#include "rendezvous/base/spelling.h"

namespace ddprun::launcher {
namespace {

bool has_coordinator(const agent::EtcdEntry& job) { return job.keys.holder && !job.keys.holder->released; }

// As the record has it, which is written with each round and about once a second at most.
const char* state_at_etcd(const agent::EtcdEntry& job) {
  const auto& record = job.keys.record;
  if (!job.unknown.empty()) return "unknown";
  if (record && record->over) return "ended";
  if (!has_coordinator(job)) return "no coordinator";
  return record && !record->round.nodes.empty() ? "running" : "waiting";
}

std::string text_or_dash(const nlohmann::json& value) {
  return value.is_null() ? "-" : value.is_string() ? value.get<std::string>() : value.dump();
}

}  // namespace

nlohmann::json etcd_list_json(const std::vector<agent::EtcdEntry>& jobs) {
  nlohmann::json all = nlohmann::json::array();
  for (const agent::EtcdEntry& job : jobs) {
    const std::string state = state_at_etcd(job);
    nlohmann::json one{{"run_id", job.run_id}, {"state", state}};
    for (const char* unknown : {"coordinator", "nodes", "round", "changed_seconds"}) one[unknown] = nullptr;
    if (has_coordinator(job)) one["coordinator"] = job.keys.holder->name;
    if (const auto& record = job.keys.record) {
      if (state == "running") one["nodes"] = record->round.nodes.size();
      one["round"] = record->round.number;
      one["changed_seconds"] = std::chrono::duration<double>(record->age).count();
    }
    all.push_back(std::move(one));
  }
  return all;
}

std::string etcd_list_text(const std::vector<agent::EtcdEntry>& jobs) {
  std::vector<std::vector<std::string>> rows{{"JOB", "STATE", "COORDINATOR", "NODES", "ROUND", "CHANGED"}};
  for (const nlohmann::json& job : etcd_list_json(jobs)) {
    std::vector<std::string> row;
    for (const char* key : {"run_id", "state", "coordinator", "nodes", "round"}) row.push_back(text_or_dash(job[key]));
    const nlohmann::json& age = job["changed_seconds"];
    row.push_back(age.is_null() ? "-" : duration_text(age.get<double>()) + " ago");
    rows.push_back(std::move(row));
  }
  return table_text(rows);
}

std::vector<rendezvous::ControlAddress> coordinator_of(const agent::EtcdEntry& job) {
  if (has_coordinator(job)) return job.keys.holder->places;
  if (!job.unknown.empty()) throw JobRefused(visible(job.unknown) + ".");
  if (!job.keys.holder && !job.keys.record)
    throw JobRefused("etcd knows no job " + visible(job.run_id) +
                     ": ddprun list --rdzv-backend=etcd shows those that it knows.");
  const bool ended = job.keys.record && job.keys.record->over;
  throw JobRefused(visible(job.run_id) + (ended ? " has ended." : " has no coordinator at the moment."));
}

}  // namespace ddprun::launcher

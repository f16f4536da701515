#include "launcher/etcd_jobs.h"

#include <algorithm>

#include "launcher/job_submission.h"
#include "launcher/view/table.h"
#include "rendezvous/base/duration_text.h"
#include "rendezvous/base/spelling.h"

namespace ddprun::launcher {
namespace {

bool has_coordinator(const agent::EtcdEntry& job) { return job.keys.holder && !job.keys.holder->released; }

// As the record has it, which is written with each round and about once a second at most.
const char* state_at_etcd(const agent::EtcdEntry& job) {
  const auto& record = job.keys.record;
  if (record && record->over) return "ended";
  if (!has_coordinator(job)) return "no coordinator";
  return record && !record->round.nodes.empty() ? "running" : "waiting";
}

double age_seconds(const rendezvous::EtcdRecord& record) { return std::chrono::duration<double>(record.age).count(); }

std::string where_it_listens(const rendezvous::EtcdHolder& holder) {
  if (holder.places.empty()) return {};
  const rendezvous::ControlAddress& first = holder.places.front();
  const std::string host = first.host.find(':') == std::string::npos ? first.host : "[" + first.host + "]";
  return host + ":" + std::to_string(first.port);
}

}  // namespace

std::string etcd_list_text(const std::vector<agent::EtcdEntry>& jobs) {
  std::vector<std::vector<std::string>> rows{{"JOB", "STATE", "COORDINATOR", "NODES", "ROUND", "CHANGED"}};
  for (const agent::EtcdEntry& job : jobs) {
    const auto& record = job.keys.record;
    const bool running = std::string_view(state_at_etcd(job)) == "running";
    rows.push_back(
        {job.run_id, state_at_etcd(job),
         has_coordinator(job) ? job.keys.holder->name + " (" + where_it_listens(*job.keys.holder) + ")" : "-",
         running ? std::to_string(record->round.nodes.size()) : "-",
         record && record->round.number > 0 ? std::to_string(record->round.number) : "-",
         record ? duration_text(age_seconds(*record)) + " ago" : "-"});
  }
  return table_text(rows);
}

nlohmann::json etcd_list_json(const std::vector<agent::EtcdEntry>& jobs) {
  nlohmann::json all = nlohmann::json::array();
  for (const agent::EtcdEntry& job : jobs) {
    nlohmann::json one{{"run_id", job.run_id},      {"state", state_at_etcd(job)},
                       {"coordinator", nullptr},    {"endpoint", nullptr},
                       {"round", nullptr},          {"nodes", nullptr},
                       {"changed_seconds", nullptr}};
    if (has_coordinator(job)) {
      one["coordinator"] = job.keys.holder->name;
      one["endpoint"] = where_it_listens(*job.keys.holder);
    }
    if (const auto& record = job.keys.record) {
      one["round"] = record->round.number;
      one["nodes"] = record->round.nodes.size();
      one["changed_seconds"] = age_seconds(*record);
    }
    all.push_back(std::move(one));
  }
  return all;
}

std::vector<rendezvous::ControlAddress> coordinator_of(const std::vector<agent::EtcdEntry>& jobs,
                                                       const std::string& run_id) {
  std::vector<std::string> known;
  for (const agent::EtcdEntry& job : jobs) {
    known.push_back(job.run_id);
    if (job.run_id != run_id) continue;
    if (has_coordinator(job)) return job.keys.holder->places;
    const bool ended = job.keys.record && job.keys.record->over;
    throw JobRefused(visible(run_id) + (ended ? " has ended." : " has no coordinator at the moment."));
  }
  throw JobRefused("etcd knows no job " + visible(run_id) + ", " +
                   (known.empty() ? "nor any other one." : "only " + visible(listed(known, "and")) + "."));
}

}  // namespace ddprun::launcher

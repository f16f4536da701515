// The jobs that an etcd knows of: what `ddprun list` shows of them, and where the coordinator of one is. Pure.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "agent/etcd/etcd_list.h"

namespace ddprun::launcher {

// A line for each job: JOB, STATE, COORDINATOR, NODES, ROUND, and how long ago its record was written.
std::string etcd_list_text(const std::vector<agent::EtcdEntry>& jobs);
nlohmann::json etcd_list_json(const std::vector<agent::EtcdEntry>& jobs);

// Where the coordinator of that job listens. Throws JobRefused where there is none.
std::vector<rendezvous::ControlAddress> coordinator_of(const std::vector<agent::EtcdEntry>& jobs,
                                                       const std::string& run_id);

}  // namespace ddprun::launcher

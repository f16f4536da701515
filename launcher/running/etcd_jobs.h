// The jobs that an etcd knows of: what `ddprun list` shows of them, and where the coordinator of one is. Pure.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "agent/etcd/etcd_list.h"

namespace ddprun::launcher {

// An object for each job; null: it is unknown. changed_seconds: since its record was written.
nlohmann::json etcd_list_json(const std::vector<agent::EtcdEntry>& jobs);
std::string etcd_list_text(const std::vector<agent::EtcdEntry>& jobs);

// Where the job's coordinator listens. Throws JobRefused where there is none.
std::vector<rendezvous::ControlAddress> coordinator_of(const agent::EtcdEntry& job);

}  // namespace ddprun::launcher

// The jobs that etcd knows of under a prefix, for the command line: it blocks.
#pragma once
#include <string>
#include <vector>

#include "agent/etcd/etcd_access.h"
#include "rendezvous/etcd/etcd_keys.h"

namespace ddprun::agent {

struct EtcdEntry {
  std::string run_id;
  rendezvous::EtcdKeys keys;
  std::string unknown = {};  // why they cannot be read; empty: they can
};

// Sorted by run id. Keys that are no job's are left out. Throws Error naming the member of etcd.
std::vector<EtcdEntry> list_jobs(const EtcdAccess& access, Duration within);

}  // namespace ddprun::agent

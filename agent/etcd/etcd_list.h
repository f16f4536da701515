// The jobs that etcd knows of under a prefix, for the command line: it blocks. Throws Error naming the member of etcd.
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

// Sorted by run id. Keys that are no job's are left out.
std::vector<EtcdEntry> list_jobs(const EtcdAccess& access, Duration within);
// Its two keys, and no others: who has no right to those may ask, too. Without them: there is no such job.
EtcdEntry read_job(const EtcdAccess& access, const std::string& run_id, Duration within);

}  // namespace ddprun::agent

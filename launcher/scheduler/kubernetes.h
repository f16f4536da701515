// What a pod of an Indexed Job or of a JobSet knows about its peers: JOB_COMPLETION_INDEX and the pods' names. Pure.
#pragma once
#include <functional>
#include <string>

#include "launcher/scheduler/proposals.h"

namespace ddprun::launcher {

// Only where the user gave a number of nodes, which no variable tells. The host's name and the content of /etc/hosts
// are asked only then.
void propose_kubernetes(Proposals& proposals, const std::function<std::string()>& host_name,
                        const std::function<std::string()>& hosts_file);

// The full name of the pod with index 0 in the headless service of a pod with this name and index; empty if the name
// does not end in the index or has no domain. "mnist-3" and "10.0.0.5 mnist-3.svc.ns.svc.cluster.local mnist-3" give
// "mnist-0.svc.ns.svc.cluster.local".
std::string first_pod(const std::string& host_name, const std::string& index, const std::string& hosts_file);

}  // namespace ddprun::launcher

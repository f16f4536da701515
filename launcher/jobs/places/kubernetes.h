// Talks to a cluster by kubectl, with its own configuration. Each call is given 30 s.
//
// Edge: runs processes, decides nothing. Errors are `Error`: no kubectl, what kubectl itself said, no answer.
#pragma once
#include <string>
#include <vector>

#include "launcher/jobs/places/place_state.h"

namespace ddprun::launcher {

// Where a job's objects are, to be kept with its record.
struct KubernetesJob {
  std::string name;             // kubernetes_name(id)
  std::string name_space = {};  // empty: kubectl's own
  bool jobset = false;
};

void submit_to_kubernetes(const std::string& manifest);  // kubectl apply -f -
PlaceState kubernetes_job_state(const KubernetesJob& job);
// Removes all objects of the job; its pods get SIGTERM and have the manifest's terminationGracePeriodSeconds.
void cancel_kubernetes_job(const KubernetesJob& job);

// kubectl's command for the output of the pod with index 0, which rank 0 is in; hand it to become_program().
std::vector<std::string> kubernetes_log_command(const KubernetesJob& job, bool follow);

}  // namespace ddprun::launcher

// Talks to a cluster by kubectl, with its own configuration. Each call but kubectl apply is given 30 s.
//
// Edge: runs processes, decides nothing. Errors are `Error`: no kubectl, what kubectl itself said, no answer.
#pragma once
#include <string>
#include <vector>

#include "launcher/jobs/places/place_state.h"
#include "launcher/jobs/places/submission.h"

namespace ddprun::launcher {

// Where a job's objects are, to be kept with its record.
struct KubernetesJob {
  std::string name;             // kubernetes_name(id)
  std::string name_space = {};  // empty: kubectl's own
  bool jobset = false;
};

// kubectl apply --server-side: the other way leaves a copy of all that was sent, a token too, in an annotation. Throws
// SubmissionUnclear where the cluster may have some of it, and Error where it has nothing.
void submit_to_kubernetes(const std::string& manifest, const SubmissionPatience& patience = {});
// These throw for a job without a well-formed name, and ask nobody.
PlaceState kubernetes_job_state(const KubernetesJob& job);
// Of all these jobs by one question for each namespace and kind, within one limit of 30 s; by their names.
PlaceAnswers kubernetes_job_states(const std::vector<KubernetesJob>& jobs);
// Removes all objects of the job; its pods get SIGTERM and have the manifest's terminationGracePeriodSeconds.
void cancel_kubernetes_job(const KubernetesJob& job);

// kubectl's command for the output of the pod with index 0, which rank 0 is in; hand it to become_program().
std::vector<std::string> kubernetes_log_command(const KubernetesJob& job, bool follow);

}  // namespace ddprun::launcher

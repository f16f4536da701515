// The manifest of a job for `kubectl apply`: the token as a Secret, the job file as a ConfigMap, and an Indexed Job
// with its headless service, or a JobSet; as scripts/schedulers/kubernetes/ has them.
//
// Pure: the same job gives the same bytes. read_kubernetes_words() says before what cannot be.
#pragma once
#include <string>
#include <vector>

#include "launcher/jobs/job_description.h"

namespace ddprun::launcher {

// For --dry-run, in place of a token.
inline constexpr const char* kNoToken = "<a new token, made when the job is submitted>";

struct ManifestInputs {
  JobDescription job;
  std::string id = {};                      // the record's; names all objects
  std::string job_file = {};                // the text that `ddprun run` reads in the pods
  std::vector<std::string> overrides = {};  // "key=value" of --set, which job_file does not yet have
  std::string token = kNoToken;
};
std::string kubernetes_manifest(const ManifestInputs& inputs);

}  // namespace ddprun::launcher

// What [slurm] and [kubernetes] of a job file, and the scripts and manifests, have in common. Pure.
#pragma once
#include <optional>
#include <string>

#include "launcher/jobs/job_description.h"
#include "rendezvous/base/time.h"

namespace ddprun::launcher {

// The value of an option of ddprun ("stop-grace") among the job's, given as "--stop-grace=30" or as two words; the last
// one counts. Empty: it is not given.
std::optional<std::string> option_value(const JobDescription& job, const std::string& name);

// How long the job's workers may take from SIGTERM to SIGKILL: --stop-grace, or its default of 25 s.
std::chrono::seconds stop_grace_of(const JobDescription& job);

// Whether the job brings no authentication of its own: --token-file, --tls-cert.
bool needs_token(const JobDescription& job);

// Rounded up.
std::chrono::seconds in_seconds(Duration duration);

}  // namespace ddprun::launcher

// Where metrics are pushed to, from --otlp and what OpenTelemetry and Kubeflow Trainer put into the environment. Pure.
#pragma once
#include <optional>
#include <string>

#include "agent/process/worker_env.h"
#include "agent/push/push_options.h"

namespace ddprun::launcher {

// `otlp`: the option's value; empty: nothing is pushed, whatever the environment holds. Throws UsageError if a variable
// that counts is wrong.
std::optional<agent::OtlpOptions> otlp_options(const std::string& otlp, const agent::Environment& environment);
// Empty: no Kubeflow Trainer has started the job.
std::optional<agent::KubeflowOptions> kubeflow_options(const agent::Environment& environment);

}  // namespace ddprun::launcher

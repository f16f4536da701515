// Where a node pushes what it knows of the job.
#pragma once
#include <optional>
#include <string>

#include "agent/http/http_answer.h"
#include "agent/http/http_url.h"
#include "agent/http/https.h"
#include "rendezvous/base/time.h"

namespace ddprun::agent {

// To a collector of OpenTelemetry (--otlp).
struct OtlpOptions {
  HttpUrl url = {};  // of the metrics: ".../v1/metrics"
  HttpHeaders headers = {};
  HttpHeaders attributes = {};  // further ones of the resource
  std::string authority = {};   // a file of certificates; empty: the system's
  Duration interval = std::chrono::seconds(60), within = std::chrono::seconds(10);
};

// To the Kubeflow Trainer that started the job: what it puts into its pods' environment. Not checked.
struct KubeflowOptions {
  std::string url = {}, authority_file = {}, token_file = {};
  Duration interval = std::chrono::seconds(10), within = std::chrono::seconds(5);
};

}  // namespace ddprun::agent

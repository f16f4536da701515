// What this node pushes of its job: metrics (--otlp), and progress for Kubeflow Trainer. A failure stops nothing.
//
// For the thread of the io_context; hooks are called there.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include <asio/io_context.hpp>

#include "agent/process/files/file_thread.h"
#include "agent/push/push_options.h"
#include "agent/push/pusher.h"
#include "agent/status/metrics_text.h"
#include "rendezvous/base/time.h"

namespace ddprun::agent {

struct PushOptions {
  std::optional<OtlpOptions> otlp = {};
  std::optional<KubeflowOptions> kubeflow = {};
  std::string version = {};  // ddprun's
  std::string host = {}, run_id = {};
};

class JobPushes {
 public:
  struct Hooks {
    // Calls back with the job's metrics, now or later.
    std::function<void(const std::function<void(const MetricsValues&)>&)> metrics;
    // Of this node, if it has rank 0: others push no progress.
    std::function<std::optional<rendezvous::NodeReport>()> with_rank_0;
    std::function<bool()> succeeded;  // the job has ended well
    std::function<void(const std::string& sentence)> say;
  };
  // `files` reads certificates and tokens, and must outlive it.
  JobPushes(asio::io_context& io, PushOptions options, FileThread& files, Hooks hooks);

  void start();
  void round_began(TimePoint at) { round_began_ = at; }
  // The last value of a user's metric.
  void measured(const std::string& name, double value) { measured_[name] = value; }
  // The values at the end. A receiver that does not answer delays `done` by a second.
  void push_last(const std::function<void()>& done);

 private:
  void collect_metrics(const Pusher::Ready& ready);
  void collect_progress(const Pusher::Ready& ready);

  asio::io_context& io_;
  const PushOptions options_;
  FileThread& files_;
  const Hooks hooks_;
  const TimePoint started_ = Clock::now();
  std::optional<TimePoint> round_began_;
  std::optional<Pusher> otlp_, kubeflow_;
  std::optional<std::uint64_t> last_step_, total_steps_;  // that were pushed to Kubeflow Trainer
  std::optional<double> loss_;
  std::map<std::string, double> measured_;
};

}  // namespace ddprun::agent

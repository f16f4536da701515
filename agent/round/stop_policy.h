// How a node's workers are stopped: the time limits, and what announces a preemption.
#pragma once
#include <optional>
#include <vector>

#include "rendezvous/base/time.h"

namespace ddprun::agent {

struct StopPolicy {
  // How long a worker may take to leave after SIGTERM. Longer lets it finish a snapshot; shorter restarts sooner. After
  // Ctrl-C it gets SIGINT, and SIGTERM after half of this time.
  Duration stop_grace = std::chrono::seconds(25);
  // How long the kernel may take to end a worker after SIGKILL (a driver may hold it) before we print it. The node
  // joins no round until it is gone: two workers of one rank would write the same files. A job that ends does not wait.
  Duration kill_limit = std::chrono::seconds(10);
  Duration held_notice_every = std::chrono::seconds(60);  // until the warning is repeated
  // How long the workers' descendants may take to end after SIGKILL before we go on without waiting.
  Duration sweep_limit = std::chrono::seconds(10);
  // Time limit after the first worker's successful exit; then the round has failed. Empty: no limit.
  std::optional<Duration> peer_exit_timeout = {};
  // Signals that may announce a preemption. A worker that one of them ended is reported as failed only after this time:
  // a scheduler that signals all processes at once signals us as well.
  std::vector<int> notice_signals = {};
  Duration notice_window = std::chrono::milliseconds(500);
  // The exit code of a worker that was preempted and has saved. One that ends with it by itself announces a preemption.
  std::optional<int> preempt_exit_code = {};
  // When we first print whom we wait for, and how often again.
  Duration notice_first = std::chrono::seconds(2);
  Duration notice_every = std::chrono::seconds(5);
};

}  // namespace ddprun::agent

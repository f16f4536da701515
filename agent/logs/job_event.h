// An event of a job's life as a line of JSON for programs: torchrun's names and fields, true times, one level.
// Described in docs/events.md.
//
// Pure: event_log.h writes the lines.
#pragma once
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::agent {

// The same in all events of one agent.
struct EventJob {
  std::string run_id = {}, role = "default", host = {}, rdzv_backend = "static", entry_point = {};
  // In an agent's first event only:
  std::optional<int> requeues = {};
  std::string command = {};  // as typed
};

struct EventWorker {
  int rank = 0, local_rank = 0, role_rank = 0, role_world_size = 1;
  int pid = 0;                        // 0: never started
  std::optional<int> exit_code = {};  // once it has ended; -N: killed by signal N
};

// torchrun's states: of the agent RENDEZVOUS, ASSIGN_WORKER_RANKS, SUCCEEDED, FAILED, RUNNING (timers); of a worker
// START, SUCCEEDED, FAILED, TERMINATED (stopped by ddprun).
struct JobEvent {
  std::string state;
  std::string name = {};  // empty: "torchelastic.worker.status." and the state
  std::chrono::system_clock::time_point when = {};
  EventJob job = {};
  std::optional<EventWorker> worker = {};  // empty: the agent's own
  std::optional<int> group_rank = {}, group_world_size = {};
  int round = 0;                                          // 0: before the first
  int restarts = 0;                                       // so far
  std::chrono::nanoseconds run_time = {};                 // of the agent
  std::optional<std::chrono::nanoseconds> duration = {};  // of the reported action
  std::string error = {};                                 // raw_error; empty: none
  std::optional<int> requeues = {};                       // empty: no such field
  // Fields of this event only, for timers: watchdog_event, scope_id.
  std::vector<std::pair<std::string, std::string>> more = {};
};

// One line, ended by '\n'.
std::string event_line(const JobEvent& event);

}  // namespace ddprun::agent

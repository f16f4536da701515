#include "agent/logs/job_event.h"

#include <nlohmann/json.hpp>

#include "rendezvous/base/json_text.h"

namespace ddprun::agent {
namespace {

using Json = nlohmann::ordered_json;

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

void add_worker(Json& metadata, const EventWorker& worker) {
  metadata["local_rank"] = worker.local_rank;
  metadata["role_rank"] = worker.role_rank;
  metadata["role_world_size"] = worker.role_world_size;
  metadata["exit_code"] = or_null(worker.exit_code);
  metadata["worker_pid"] = worker.pid ? Json(worker.pid) : Json();
}

// In torchrun's order; what torchrun puts into a JSON string are plain fields here.
Json metadata_of(const JobEvent& event) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(event.run_time).count();
  const auto milliseconds = [](std::chrono::nanoseconds t) {
    return std::chrono::duration<double, std::milli>(t).count();
  };
  Json out;
  out["run_id"] = event.job.run_id;
  out["global_rank"] = event.worker ? Json(event.worker->rank) : Json();
  out["group_rank"] = or_null(event.group_rank);
  out["worker_id"] = event.worker && event.worker->pid ? Json(std::to_string(event.worker->pid)) : Json();
  out["role"] = event.job.role;
  out["hostname"] = event.job.host;
  out["state"] = event.state;
  out["total_run_time"] = seconds;
  out["rdzv_backend"] = event.job.rdzv_backend;
  out["raw_error"] = event.error.empty() ? Json() : Json(event.error);
  out["agent_restarts"] = event.restarts;
  out["duration_ms"] = event.duration ? Json(milliseconds(*event.duration)) : Json();
  out["round"] = event.round;
  out["group_world_size"] = or_null(event.group_world_size);
  out["entry_point"] = event.job.entry_point;
  if (event.worker) add_worker(out, *event.worker);
  if (event.requeues) out["requeues"] = *event.requeues;
  for (const auto& [key, value] : event.more) out[key] = value;
  return out;
}

}  // namespace

std::string event_line(const JobEvent& event) {
  using std::chrono::milliseconds;
  Json out;
  out["name"] = event.name.empty() ? "torchelastic.worker.status." + event.state : event.name;
  out["source"] = event.worker ? "WORKER" : "AGENT";
  out["timestamp"] = std::chrono::duration_cast<milliseconds>(event.when.time_since_epoch()).count();
  out["metadata"] = metadata_of(event);
  return json_text(out, {.ascii = true}) + "\n";
}

}  // namespace ddprun::agent

#include "launcher/jobs/places/kubernetes_state.h"

#include <algorithm>
#include <array>
#include <regex>
#include <vector>

#include "launcher/settings/values.h"
#include "rendezvous/base/spelling.h"

namespace ddprun::launcher {
namespace {

using nlohmann::json;
using KubePhase = PlaceState::Phase;

constexpr int kSavedInPod = 75;
constexpr std::array kLostRequests{"timeout",       "timed out",       "deadline exceeded", "EOF",
                                   "reset by peer", "connection lost", "InternalError"};

// The value below these keys; null where there is none.
const json& json_at(const json& from, std::initializer_list<const char*> keys) {
  static const json kNone;
  const json* place = &from;
  for (const char* key : keys) {
    const auto found = place->is_object() ? place->find(key) : place->end();
    if (!place->is_object() || found == place->end()) return kNone;
    place = &*found;
  }
  return *place;
}

std::string text_at(const json& from, std::initializer_list<const char*> keys) {
  const json& value = json_at(from, keys);
  return value.is_string() ? value.get<std::string>() : "";
}

int number_at(const json& from, std::initializer_list<const char*> keys) {
  const json& value = json_at(from, keys);
  return value.is_number_integer() ? value.get<int>() : 0;
}

std::vector<json> of_kind(const json& list, std::initializer_list<const char*> kinds) {
  std::vector<json> out;
  for (const json& item : json_at(list, {"items"}))
    if (std::count(kinds.begin(), kinds.end(), text_at(item, {"kind"}))) out.push_back(item);
  return out;
}

// The condition of this type that is true, or null.
json condition_of(const json& item, const std::string& type) {
  for (const json& one : json_at(item, {"status", "conditions"}))
    if (text_at(one, {"type"}) == type && text_at(one, {"status"}) == "True") return one;
  return {};
}

// "Container ddprun for pod ns/x failed with exit code 93 matching FailJob rule at index 0"
std::optional<int> code_in_message(const std::string& message) {
  static const std::regex kCode("failed with exit code ([0-9]{1,3})\\b");
  std::smatch found;
  if (!std::regex_search(message, found, kCode)) return {};
  return settings::whole_text<int>(found[1].str());
}

struct Pod {
  std::string index, node, phase, waits, created;
  std::optional<int> code = {};
  bool disrupted = false, ready = false;
};

Pod pod_of(const json& item) {
  Pod pod;
  pod.index = text_at(item, {"metadata", "annotations", "batch.kubernetes.io/job-completion-index"});
  pod.node = text_at(item, {"spec", "nodeName"});
  pod.phase = text_at(item, {"status", "phase"});
  pod.created = text_at(item, {"metadata", "creationTimestamp"});
  pod.disrupted = !condition_of(item, "DisruptionTarget").is_null();
  pod.ready = !condition_of(item, "Ready").is_null();
  for (const json& container : json_at(item, {"status", "containerStatuses"})) {
    if (text_at(container, {"name"}) != "ddprun") continue;
    const json& code = json_at(container, {"state", "terminated", "exitCode"});
    if (code.is_number_integer()) pod.code = code.get<int>();
    pod.waits = text_at(container, {"state", "waiting", "reason"});
  }
  for (const json& one : json_at(item, {"status", "conditions"}))
    if (text_at(one, {"type"}) == "PodScheduled" && text_at(one, {"status"}) == "False")
      pod.waits = text_at(one, {"message"});
  return pod;
}

std::vector<Pod> pods_of(const json& list) {
  std::vector<Pod> pods;
  for (const json& item : of_kind(list, {"Pod"})) pods.push_back(pod_of(item));
  std::stable_sort(pods.begin(), pods.end(), [](const Pod& a, const Pod& b) { return a.created < b.created; });
  return pods;
}

// How often the pod of rank 0 was replaced without being counted as a failure.
int requeues_of(const std::vector<Pod>& pods) {
  return static_cast<int>(std::count_if(pods.begin(), pods.end(), [](const Pod& pod) {
    return pod.index == "0" && (pod.code == kSavedInPod || (pod.disrupted && pod.phase == "Failed"));
  }));
}

std::string nodes_of_pods(const std::vector<Pod>& pods) {
  std::vector<std::string> nodes;
  for (const Pod& pod : pods)
    if (!pod.node.empty() && pod.phase == "Running" && !std::count(nodes.begin(), nodes.end(), pod.node))
      nodes.push_back(pod.node);
  return settings::joined(nodes, ",");
}

// The last one that ended with a code.
std::optional<int> last_code(const std::vector<Pod>& pods) {
  std::optional<int> code;
  for (const Pod& pod : pods)
    if (pod.code && (pod.index == "0" || !code)) code = pod.code;
  return code;
}

PlaceState failed_state(const json& condition, const std::vector<Pod>& pods) {
  const std::string reason = text_at(condition, {"reason"}), message = text_at(condition, {"message"});
  PlaceState out{
      KubePhase::failed, visible(message.empty() ? reason : reason + ": " + message), {}, 0, code_in_message(message)};
  if (!out.exit_code) out.exit_code = last_code(pods);
  if (message.find("DeadlineExceeded") != message.npos || reason == "DeadlineExceeded") {
    out.phase = KubePhase::stopped;
    out.detail = "max_run is over (DeadlineExceeded)";
  }
  return out;
}

std::string why_it_waits(const std::vector<Pod>& pods) {
  for (const Pod& pod : pods)
    if (pod.phase == "Pending" && !pod.waits.empty()) return "waiting: " + visible(pod.waits);
  return pods.empty() ? "waiting for its pods" : "waiting";
}

PlaceState unfinished_state(const json& job, const std::vector<Pod>& pods) {
  if (json_at(job, {"spec", "suspend"}) == true) return {KubePhase::queued, "suspended", {}, 0, {}};
  const auto running = std::count_if(pods.begin(), pods.end(), [](const Pod& pod) { return pod.phase == "Running"; });
  if (running == 0) return {KubePhase::queued, why_it_waits(pods), {}, 0, {}};
  const int wanted = number_at(job, {"spec", "completions"});
  std::string detail = std::to_string(running) + (wanted > 0 ? " of " + std::to_string(wanted) : "") + " pods run";
  return {KubePhase::running, detail, {}, 0, {}};
}

PlaceState state_of_object(const json& job, const std::vector<Pod>& pods) {
  for (const char* type : {"Complete", "Completed"})  // a Job, a JobSet
    if (!condition_of(job, type).is_null()) return {KubePhase::succeeded, {}, {}, 0, 0};
  if (const json failed = condition_of(job, "Failed"); !failed.is_null()) return failed_state(failed, pods);
  if (!text_at(job, {"metadata", "deletionTimestamp"}).empty()) return {KubePhase::running, "ending", {}, 0, {}};
  return unfinished_state(job, pods);
}

}  // namespace

PlaceState state_from_kubernetes(const json& list) {
  const std::vector<json> jobs = of_kind(list, {"Job", "JobSet"});
  if (jobs.empty()) return {KubePhase::gone, "the cluster has no such job (any more)", {}, 0, {}};
  const std::vector<Pod> pods = pods_of(list);
  PlaceState out = state_of_object(jobs.front(), pods);
  out.requeues = std::max(requeues_of(pods), number_at(jobs.front(), {"status", "restarts"}));
  out.where = nodes_of_pods(pods);
  return out;
}

json objects_of_job(const json& list, const std::string& name) {
  json items = json::array();
  for (const json& item : json_at(list, {"items"}))
    if (text_at(item, {"metadata", "labels", "ddprun/job"}) == name) items.push_back(item);
  return {{"items", items}};
}

// It prints a line for each object that the cluster has taken. Of a lost answer it says what was lost, but "dial tcp"
// where nothing was sent.
bool applied_nothing(const ProgramEnd& end) {
  if (end.how != ProgramEnd::How::exited || !settings::trimmed(end.out).empty()) return false;
  if (end.err.find("dial tcp") != end.err.npos) return true;
  return std::none_of(kLostRequests.begin(), kLostRequests.end(),
                      [&](const char* one) { return end.err.find(one) != end.err.npos; });
}

}  // namespace ddprun::launcher

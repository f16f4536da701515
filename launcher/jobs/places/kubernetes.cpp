#include "launcher/jobs/places/kubernetes.h"

#include <map>
#include <nlohmann/json.hpp>

#include "launcher/jobs/places/kubernetes_state.h"
#include "launcher/jobs/places/kubernetes_words.h"
#include "launcher/scheduler/program_run.h"
#include "launcher/settings/values.h"
#include "rendezvous/base/error.h"
#include "rendezvous/base/json_text.h"
#include "rendezvous/base/spelling.h"
#include "rendezvous/base/time.h"

namespace ddprun::launcher {
namespace {

using KubectlWords = std::vector<std::string>;

constexpr std::chrono::seconds kKubectlLimit{30};

KubectlWords kubectl(const std::string& name_space, const KubectlWords& rest) {
  KubectlWords words{"kubectl"};
  if (!name_space.empty()) words.push_back("--namespace=" + name_space);
  words.insert(words.end(), rest.begin(), rest.end());
  return words;
}

std::string kubectl_said(const ProgramEnd& end) {
  KubectlWords lines = split(settings::trimmed(end.err.empty() ? end.out : end.err), '\n');
  std::erase(lines, "");
  for (std::string& line : lines) line = visible(line);
  const std::string text = settings::joined(lines, "; ");
  return text.empty() ? "kubectl ended with " + std::to_string(end.code) : text;
}

constexpr const char* kWhichCluster = "kubectl config current-context names the cluster.";

Error no_kubectl(const std::string& what) {
  return Error(what, "there is no kubectl on PATH",
               "Install it, and name the cluster in its configuration (KUBECONFIG)");
}

std::string ask_kubectl(const KubectlWords& words, const std::string& what, Duration limit = kKubectlLimit) {
  const ProgramEnd end = run_program(words, std::chrono::ceil<std::chrono::milliseconds>(limit));
  if (end.how == ProgramEnd::How::not_found) throw no_kubectl(what);
  if (end.how == ProgramEnd::How::too_late)
    throw Error(what, "kubectl did not end within 30 s", "kubectl cluster-info shows whether the cluster answers.");
  if (!end.succeeded()) throw Error(what, kubectl_said(end), kWhichCluster);
  return end.out;
}

// `operation` is "=" or " in ".
std::string kube_selector(const std::vector<std::string>& names, const std::string& operation = "=") {
  for (const std::string& name : names)
    if (!is_kubernetes_name(name))
      throw UsageError("cannot ask Kubernetes about a job", "'" + visible(name) + "' is no name of one");
  const std::string all = settings::joined(names, ",");
  return "--selector=ddprun/job" + operation + (operation == "=" ? all : "(" + all + ")");
}

std::string kube_kind(bool jobset) { return jobset ? "jobsets.jobset.x-k8s.io" : "jobs.batch"; }

nlohmann::json objects_of(const KubernetesJob& job, const std::string& selector, const std::string& what,
                          Duration limit) {
  const std::string kinds = kube_kind(job.jobset) + ",pods";
  const auto list =
      parse_json(ask_kubectl(kubectl(job.name_space, {"get", kinds, selector, "--output=json"}), what, limit));
  if (list.is_discarded()) throw Error(what, "kubectl answered with something else than JSON");
  return list;
}

}  // namespace

void submit_to_kubernetes(const std::string& manifest, const SubmissionPatience& patience) {
  const std::string what = "cannot submit the job to Kubernetes";
  const ProgramEnd end = run_program(
      {"kubectl", "apply", "--server-side", "--field-manager=ddprun", "--filename=-"}, patience.give_up_after, manifest,
      {patience.tell_after, [&] {
         if (patience.tell) patience.tell("kubectl has not ended yet; it may have submitted the job, so ddprun waits.");
       }});
  if (end.succeeded()) return;
  if (end.how == ProgramEnd::How::not_found) throw no_kubectl(what);
  if (end.how == ProgramEnd::How::too_late) throw SubmissionUnclear("kubectl did not end and was killed");
  if (applied_nothing(end)) throw Error(what, kubectl_said(end), kWhichCluster);
  throw SubmissionUnclear(kubectl_said(end));
}

PlaceState kubernetes_job_state(const KubernetesJob& job) {
  return state_from_kubernetes(
      objects_of(job, kube_selector({job.name}), "cannot ask Kubernetes about the job " + job.name, kKubectlLimit));
}

PlaceAnswers kubernetes_job_states(const std::vector<KubernetesJob>& jobs) {
  const TimePoint deadline = Clock::now() + kKubectlLimit;
  std::map<std::pair<std::string, bool>, KubectlWords> names;
  for (const KubernetesJob& job : jobs) names[{job.name_space, job.jobset}].push_back(job.name);
  PlaceAnswers out;
  for (const auto& [where, all] : names) try {
      const auto list = objects_of({{}, where.first, where.second}, kube_selector(all, " in "),
                                   "cannot ask Kubernetes about its jobs", deadline - Clock::now());
      for (const std::string& name : all) out.states[name] = state_from_kubernetes(objects_of_job(list, name));
    } catch (const Error& error) {
      out.problem = error.what();
    }
  return out;
}

void cancel_kubernetes_job(const KubernetesJob& job) {
  const std::string kinds = kube_kind(job.jobset) + ",services,configmaps,secrets";
  ask_kubectl(
      kubectl(job.name_space, {"delete", kinds, kube_selector({job.name}), "--wait=false", "--ignore-not-found"}),
      "cannot remove the job " + job.name + " from Kubernetes");
}

// With a selector kubectl shows the last ten lines, unless told otherwise.
std::vector<std::string> kubernetes_log_command(const KubernetesJob& job, bool follow) {
  KubectlWords rest{"logs", kube_selector({job.name}) + ",batch.kubernetes.io/job-completion-index=0",
                    "--container=ddprun", "--tail=-1"};
  if (follow) rest.emplace_back("--follow");
  return kubectl(job.name_space, rest);
}

}  // namespace ddprun::launcher

#include "launcher/jobs/places/kubernetes.h"

#include <nlohmann/json.hpp>

#include "launcher/jobs/places/kubernetes_state.h"
#include "launcher/jobs/places/program_run.h"
#include "launcher/settings/values.h"
#include "rendezvous/base/error.h"
#include "rendezvous/base/spelling.h"

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

std::string ask_kubectl(const KubectlWords& words, const std::string& what, const std::string& input = {}) {
  const ProgramEnd end = run_program(words, kKubectlLimit, input);
  if (end.how == ProgramEnd::How::not_found)
    throw Error(what, "there is no kubectl on PATH",
                "Install it, and name the cluster in its configuration (KUBECONFIG)");
  if (end.how == ProgramEnd::How::too_late)
    throw Error(what, "kubectl did not end within 30 s", "kubectl cluster-info shows whether the cluster answers.");
  if (!end.succeeded()) throw Error(what, kubectl_said(end), "kubectl config current-context names the cluster.");
  return end.out;
}

std::string kube_selector(const KubernetesJob& job) { return "--selector=ddprun/job=" + job.name; }

const char* kube_kind(const KubernetesJob& job) { return job.jobset ? "jobsets.jobset.x-k8s.io" : "jobs.batch"; }

}  // namespace

void submit_to_kubernetes(const std::string& manifest) {
  ask_kubectl({"kubectl", "apply", "--filename=-"}, "cannot submit the job to Kubernetes", manifest);
}

PlaceState kubernetes_job_state(const KubernetesJob& job) {
  const std::string what = "cannot ask Kubernetes about the job " + job.name;
  const std::string kinds = std::string(kube_kind(job)) + ",pods";
  const std::string text =
      ask_kubectl(kubectl(job.name_space, {"get", kinds, kube_selector(job), "--output=json"}), what);
  const auto list = nlohmann::json::parse(text, nullptr, false);
  if (list.is_discarded()) throw Error(what, "kubectl answered with something else than JSON");
  return state_from_kubernetes(list);
}

void cancel_kubernetes_job(const KubernetesJob& job) {
  const std::string kinds = std::string(kube_kind(job)) + ",services,configmaps,secrets";
  ask_kubectl(kubectl(job.name_space, {"delete", kinds, kube_selector(job), "--wait=false", "--ignore-not-found"}),
              "cannot remove the job " + job.name + " from Kubernetes");
}

// With a selector kubectl shows the last ten lines, unless told otherwise.
std::vector<std::string> kubernetes_log_command(const KubernetesJob& job, bool follow) {
  KubectlWords rest{"logs", kube_selector(job) + ",batch.kubernetes.io/job-completion-index=0", "--container=ddprun",
                    "--tail=-1"};
  if (follow) rest.emplace_back("--follow");
  return kubectl(job.name_space, rest);
}

}  // namespace ddprun::launcher

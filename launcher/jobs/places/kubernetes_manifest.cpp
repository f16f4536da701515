#include "launcher/jobs/places/kubernetes_manifest.h"

#include <algorithm>

#include "launcher/jobs/places/kubernetes_words.h"
#include "launcher/jobs/places/place_words.h"
#include "launcher/jobs/places/quoting.h"
#include "launcher/settings/values.h"
#include "rendezvous/base/spelling.h"

namespace ddprun::launcher {
namespace {

using std::chrono::seconds;

constexpr const char* kJobFolder = "/etc/ddprun-job";
constexpr seconds kTimeToLeave{15};  // ddprun needs up to 5 s after --stop-grace
constexpr seconds kLeastGrace{40};

// Lines at a depth of two blanks each.
class YamlLines {
 public:
  explicit YamlLines(std::size_t depth = 0) : indent_(2 * depth) {}
  YamlLines& line(const std::string& text) { return text_ += std::string(indent_, ' ') + text + "\n", *this; }
  // Lines without indentation, moved to ours.
  YamlLines& lines(const std::string& text) {
    std::vector<std::string> all = split(text, '\n');
    if (!all.empty() && all.back().empty()) all.pop_back();
    for (const std::string& one : all) one.empty() ? text_ += '\n' : line(one).text_;
    return *this;
  }
  YamlLines& deeper() { return indent_ += 2, *this; }
  YamlLines& back() { return indent_ -= 2, *this; }
  std::size_t indent() const { return indent_; }
  const std::string& text() const { return text_; }

 private:
  std::size_t indent_;
  std::string text_ = {};
};

constexpr const char* kJobRules = R"(backoffLimit: 6                        # for failures that no rule below names
podReplacementPolicy: Failed           # a pod's successor starts when the pod is gone
podFailurePolicy:
  rules:
    - action: FailJob                  # another start would not help
      onExitCodes:
        containerName: ddprun
        operator: In
        values: [2, 73, 93]
    - action: Ignore                   # preempted, and everything is saved: start it again, and do not count it
      onExitCodes:
        containerName: ddprun
        operator: In
        values: [75]
    - action: Ignore                   # evicted, drained, or its node is lost
      onPodConditions:
        - type: DisruptionTarget
          status: "True"
)";

constexpr const char* kJobRulesOfJobset =
    R"(backoffLimit: 0                        # the JobSet starts all again, not the Job one pod
podFailurePolicy:
  rules:                               # these end the Job at once and put the code into its message, which the rules above read
    - action: FailJob
      onExitCodes:
        containerName: ddprun
        operator: In
        values: [2, 73, 75, 93]
    - action: FailJob
      onPodConditions:
        - type: DisruptionTarget
          status: "True"
)";

constexpr const char* kJobsetRules = R"(network:
  enableDNSHostnames: true
  publishNotReadyAddresses: true
failurePolicy:
  maxRestarts: 3                       # for failures that no rule below names
  rules:
    - name: final                      # another start would not help
      action: FailJobSet
      onJobFailureReasons: [PodFailurePolicy]
      onJobFailureMessagePatterns: ["failed with exit code (2|73|93) "]
    - name: time-is-over
      action: FailJobSet
      onJobFailureReasons: [DeadlineExceeded]
    - name: preempted                  # everything is saved: start all again, and do not count it
      action: RestartJobSetAndIgnoreMaxRestarts
      onJobFailureReasons: [PodFailurePolicy]
)";

class Manifest {
 public:
  explicit Manifest(const ManifestInputs& inputs)
      : in_(inputs),
        job_(inputs.job),
        to_(read_kubernetes_words(inputs.job).settings),
        tags_(labels_of_tags(inputs.job.tags)),
        name_(kubernetes_name(inputs.id)) {}

  std::string text() {
    yaml_.line("# The job " + in_.id + ": made by ddprun submit --to k8s; ddprun run reads the job file in each pod.");
    if (needs_token(job_)) add_secret();
    add_config_map();
    if (!to_.jobset) add_service();
    if (to_.jobset)
      add_jobset();
    else
      add_job();
    return yaml_.text();
  }

 private:
  void begin(const std::string& version, const std::string& kind) {
    if (begun_) yaml_.line("---");
    begun_ = true;
    yaml_.line("apiVersion: " + version).line("kind: " + kind).line("metadata:").deeper().line("name: " + name_);
    if (!to_.name_space.empty()) yaml_.line("namespace: " + yaml_string(to_.name_space));
    add_labels();
    if (!tags_.others.empty())
      yaml_.line("annotations:")
          .deeper()
          .line("ddprun/tags: " + yaml_string(settings::joined(tags_.others, ",")))
          .back();
    yaml_.back();
  }

  void add_labels() {
    yaml_.line("labels:").deeper().line("app.kubernetes.io/managed-by: ddprun").line("ddprun/job: " + name_);
    for (const auto& [name, value] : tags_.labels) yaml_.line(yaml_string(name) + ": " + yaml_string(value));
    yaml_.back();
  }

  void add_secret() {
    begin("v1", "Secret");
    yaml_.line("stringData:                            # who has it may join").deeper();
    yaml_.line("token: " + yaml_string(in_.token)).back();
  }

  void add_config_map() {
    begin("v1", "ConfigMap");
    yaml_.line("data:").deeper();
    yaml_.line("job.toml: " + yaml_lines(in_.job_file, yaml_.indent())).back();
  }

  void add_service() {
    begin("v1", "Service");
    yaml_.line("spec:").deeper();
    yaml_.line("clusterIP: None                        # the pods' names: " + name_ + "-0." + name_ + " and so on");
    yaml_.line("publishNotReadyAddresses: true").line("selector:").deeper();
    yaml_.line("ddprun/job: " + name_).back().back();
  }

  void add_job() {
    begin("batch/v1", "Job");
    yaml_.line("spec:").deeper();
    add_job_spec(kJobRules);
    yaml_.back();
  }

  void add_jobset() {
    begin("jobset.x-k8s.io/v1alpha2", "JobSet");
    yaml_.line("spec:").deeper().lines(kJobsetRules).line("replicatedJobs:").deeper();
    yaml_.line("- name: node").deeper().line("replicas: 1").line("template:").deeper().line("spec:").deeper();
    add_job_spec(kJobRulesOfJobset);
    yaml_.back().back().back().back().back();
  }

  void add_job_spec(const char* rules) {
    const std::string nodes = std::to_string(job_.nodes);
    yaml_.line("completionMode: Indexed").line("completions: " + nodes).line("parallelism: " + nodes);
    if (job_.max_run) yaml_.line("activeDeadlineSeconds: " + std::to_string(in_seconds(*job_.max_run).count()));
    yaml_.lines(rules).line("template:").deeper().line("metadata:").deeper();
    add_labels();
    yaml_.back().line("spec:").deeper();
    add_pod_spec();
    yaml_.back().back();
  }

  void add_pod_spec() {
    const seconds grace = std::max(kLeastGrace, stop_grace_of(job_) + kTimeToLeave);
    yaml_.line("restartPolicy: Never                   # podFailurePolicy asks for it");
    if (!to_.jobset) yaml_.line("subdomain: " + name_);
    yaml_.line("terminationGracePeriodSeconds: " + std::to_string(grace.count()) +
               "      # more than --stop-grace and 5 s");
    if (!to_.service_account.empty()) yaml_.line("serviceAccountName: " + yaml_string(to_.service_account));
    if (!to_.image_pull_secret.empty())
      yaml_.line("imagePullSecrets:").line("  - name: " + yaml_string(to_.image_pull_secret));
    add_node_selector();
    yaml_.line("containers:").deeper().line("- name: ddprun").deeper();
    add_container();
    yaml_.back().back();
    add_volumes();
  }

  void add_node_selector() {
    if (to_.node_selector.empty()) return;
    yaml_.line("nodeSelector:").deeper();
    for (const auto& [name, value] : to_.node_selector) yaml_.line(yaml_string(name) + ": " + yaml_string(value));
    yaml_.back();
  }

  void add_container() {
    yaml_.line("image: " + yaml_string(to_.image));
    yaml_.line("command:").deeper();
    for (const std::string& word : command()) yaml_.line("- " + yaml_string(without_expansion(word)));
    yaml_.back().line("workingDir: " + yaml_string(to_.source_dir));
    add_environment();
    add_resources();
    yaml_.line("volumeMounts:").deeper();
    yaml_.line("- {name: job-file, mountPath: " + std::string(kJobFolder) + ", readOnly: true}");
    if (!to_.claim.empty()) yaml_.line("- {name: work, mountPath: " + yaml_string(to_.mount_path) + "}");
    if (!to_.gpus.empty()) yaml_.line("- {name: shared-memory, mountPath: /dev/shm}");
    yaml_.back();
  }

  // The source_dir of the job file is a folder of the machine that submits.
  std::vector<std::string> command() const {
    std::vector<std::string> words{"ddprun", "run", std::string(kJobFolder) + "/job.toml"};
    for (const std::string& one : in_.overrides) words.insert(words.end(), {"--set", one});
    words.insert(words.end(), {"--set", "source_dir=" + to_.source_dir});
    return words;
  }

  void add_variable(const std::string& name, const std::string& value) {
    yaml_.line("- name: " + name).line("  value: " + yaml_string(without_expansion(value)));
  }

  void add_environment() {
    const std::string state = (to_.claim.empty() ? "/tmp" : to_.mount_path) + "/state";
    yaml_.line("env:").deeper();
    if (!option_value(job_, "rdzv-id")) add_variable("PET_RDZV_ID", name_);
    if (!to_.claim.empty() && !option_value(job_, "state-dir")) add_variable("PET_STATE_DIR", state);
    add_variable("XDG_STATE_HOME", state);
    if (needs_token(job_)) {
      yaml_.line("- name: DDPRUN_TOKEN").line("  valueFrom:");
      yaml_.line("    secretKeyRef: {name: " + name_ + ", key: token}");
    }
    yaml_.back();
  }

  void add_resources() {
    Labels limits;
    if (!to_.cpus.empty()) limits.emplace_back("cpu", to_.cpus);
    if (!to_.memory.empty()) limits.emplace_back("memory", to_.memory);
    if (!to_.gpus.empty()) limits.emplace_back(to_.gpu_resource, to_.gpus);
    if (limits.empty()) return;
    yaml_.line("resources:").deeper().line("limits:                            # requests are the same").deeper();
    for (const auto& [name, value] : limits) yaml_.line(yaml_string(name) + ": " + yaml_string(value));
    yaml_.back().back();
  }

  void add_volumes() {
    yaml_.line("volumes:").deeper().line("- name: job-file").line("  configMap: {name: " + name_ + "}");
    if (!to_.claim.empty())
      yaml_.line("- name: work").line("  persistentVolumeClaim: {claimName: " + yaml_string(to_.claim) + "}");
    if (!to_.gpus.empty())
      yaml_
          .line("- name: shared-memory                # NCCL and data loaders need more than the 64 MiB of a container")
          .line("  emptyDir: {medium: Memory}");
    yaml_.back();
  }

  const ManifestInputs& in_;
  const JobDescription& job_;
  const KubernetesSettings to_;
  const TagLabels tags_;
  const std::string name_;
  YamlLines yaml_;
  bool begun_ = false;
};

}  // namespace

std::string kubernetes_manifest(const ManifestInputs& inputs) { return Manifest(inputs).text(); }

}  // namespace ddprun::launcher

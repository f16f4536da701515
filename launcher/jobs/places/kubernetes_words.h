// The words of [kubernetes] in a job file. Pure.
//
//   [kubernetes]
//   image = "registry.local/team/ddprun:1"   # required: has ddprun, the program and what it needs
//   kind = "job"                 # or "jobset"
//   namespace = "training"       # left out: kubectl's own
//   gpus = 8                     # of each node; "amd.com/gpu:8" for another resource
//   cpus = "32"
//   memory = "200Gi"
//   volume = "claim:/job"        # a claim that all nodes may write, and where it is mounted
//   source-dir = "/job/src"      # where the workers run in the container; left out: the volume's folder, or /job
//   service-account = "trainer"
//   node-selector = "gpu=h100,zone=a"
//   image-pull-secret = "registry"
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "launcher/jobs/job_description.h"

namespace ddprun::launcher {

using Labels = std::vector<std::pair<std::string, std::string>>;

struct KubernetesSettings {
  std::string image = {};
  std::string name_space = {};  // empty: kubectl's
  bool jobset = false;
  std::string gpu_resource = "nvidia.com/gpu", gpus = {};  // no number: none
  std::string cpus = {}, memory = {};                      // quantities of Kubernetes
  std::string claim = {}, mount_path = {};
  std::string source_dir = "/job";
  std::string service_account = {};
  std::string image_pull_secret = {};
  Labels node_selector = {};
};

struct KubernetesWords {
  KubernetesSettings settings;
  std::vector<std::string> mistakes;  // a sentence each
};
KubernetesWords read_kubernetes_words(const JobDescription& job);

// The name of all objects of a job: its record's id, as far as Kubernetes allows it ("Digits_x3k9p2": "digits-x3k9p2").
std::string kubernetes_name(const std::string& id);
bool is_kubernetes_name(const std::string& name);  // that it may have made

// Tags that can be labels, "team=vision" or "baseline"; the others go to an annotation.
struct TagLabels {
  Labels labels;
  std::vector<std::string> others;
};
TagLabels labels_of_tags(const std::vector<std::string>& tags);

}  // namespace ddprun::launcher

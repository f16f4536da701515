// Kubernetes' side of `ddprun submit`: testdata/places/*.yaml are whole manifests, rewritten by DDPRUN_UPDATE=1;
// tests/schedulers/manifests_test.py checks them against the schemas.
#include <nlohmann/json.hpp>

#include "launcher/jobs/places/kubernetes_manifest.h"
#include "launcher/jobs/places/kubernetes_state.h"
#include "launcher/jobs/places/kubernetes_words.h"
#include "launcher/jobs/places/quoting.h"
#include "tests/support/test.h"
#include "tests/support/transcript.h"

using Phase = PlaceState::Phase;
using nlohmann::json;

namespace {

const fs::path kFolder = test::source_folder() + "/tests/launcher/testdata/places";
constexpr const char* kJobFile =
    "name = \"digits\"\nprogram = [\"train\", \"20\"]\nnnodes = 2\n\n[kubernetes]\n  image = \"ddprun\"  # ours\n";

ManifestInputs digits() {
  ManifestInputs in;
  in.job.name = "digits";
  in.job.nodes = 2;
  in.job.source_dir = "/home/vera/digits";
  in.job.kubernetes = {{"image", "ddprun"}};
  in.id = "digits-x3k9p2";
  in.job_file = kJobFile;
  return in;
}

ManifestInputs with_all_words(const std::string& kind) {
  ManifestInputs in = digits();
  in.id = "The_Digits.1-x3k9p2";
  in.job.max_run = 90min;
  in.job.options = {"--stop-grace=2m"};
  in.job.tags = {"team=vision", "baseline", "run=it's new", "team=other", "a/b=c"};
  in.job.kubernetes = {{"image", "registry.local:5000/team/ddprun@sha256:0a1b"},
                       {"kind", kind},
                       {"namespace", "training"},
                       {"gpus", "8"},
                       {"cpus", "1.5"},
                       {"memory", "200Gi"},
                       {"volume", "train-claim:/data/my job"},
                       {"source_dir", "/data/my job/src"},
                       {"service-account", "trainer"},
                       {"image-pull-secret", "registry.local"},
                       {"node-selector", "nvidia.com/gpu.product=H100,zone=1"}};
  in.overrides = {"hyperparameters.note=\"$(HOME) costs $5\"", "epochs=90"};
  in.job_file = "note = \"no line end, and a tab\tand \xc3\xa9\"";
  in.token = "0123456789abcdef0123456789abcdef";
  return in;
}

void check_manifest(const std::string& name, const ManifestInputs& in) {
  CHECK(read_kubernetes_words(in.job).mistakes.empty());
  const std::string manifest = kubernetes_manifest(in);
  INFO(name << " is now\n" << manifest);
  CHECK(test::matches_golden(kFolder / name, manifest));
}

std::vector<std::string> mistakes_of(const SchedulerWords& words) {
  JobDescription job;
  job.kubernetes = words;
  return read_kubernetes_words(job).mistakes;
}

json condition(const char* type, const char* reason = "", const char* message = "", const char* status = "True") {
  return {{"type", type}, {"status", status}, {"reason", reason}, {"message", message}};
}

json job_with(const std::vector<json>& conditions, const char* kind = "Job") {
  return {{"kind", kind}, {"spec", {{"completions", 2}}}, {"status", {{"conditions", conditions}}}};
}

json pod(const char* index, const char* phase, const char* node, const json& container, const char* created = "1") {
  return {
      {"kind", "Pod"},
      {"metadata",
       {{"annotations", {{"batch.kubernetes.io/job-completion-index", index}}}, {"creationTimestamp", created}}},
      {"spec", {{"nodeName", node}}},
      {"status", {{"phase", phase}, {"containerStatuses", json::array({{{"name", "ddprun"}, {"state", container}}})}}}};
}

json ended(int code) { return {{"terminated", {{"exitCode", code}}}}; }

PlaceState state_of(const std::vector<json>& items) {
  return state_from_kubernetes({{"kind", "List"}, {"items", items}});
}

}  // namespace

TEST_CASE("a job's manifest for kubectl", "[places]") {
  check_manifest("two-nodes.yaml", digits());
  check_manifest("all-words.yaml", with_all_words("job"));
  check_manifest("jobset.yaml", with_all_words("jobset"));
  ManifestInputs own_token = digits();
  own_token.job.options = {"--token-file=/run/token", "--rdzv-id=mine", "--state-dir=/data"};
  own_token.job.kubernetes.emplace_back("volume", "claim:/data");
  check_manifest("own-token.yaml", own_token);
}

TEST_CASE("wrong words of [kubernetes] are named", "[places]") {
  CHECK_THAT(mistakes_of({}).at(0), Contains("has no image"));
  CHECK_THAT(mistakes_of({{"image", ""}}).at(0), Contains("image is empty; it takes a text"));
  CHECK_THAT(mistakes_of({{"image", "x"}, {"memroy", "2Gi"}}).at(0), Contains("Did you mean 'memory'?"));
  CHECK_THAT(mistakes_of({{"image", "x"}, {"qwertz", "2Gi"}}).at(0), Contains("It takes cpus, gpus, image"));
  const std::vector<std::pair<std::string, std::string>> wrong{
      {"kind", "pod"},          {"gpus", "many"},          {"gpus", "amd.com/gpu:x"},  {"cpus", "a lot"},
      {"memory", "2GB"},        {"volume", "claim"},       {"volume", "claim:data"},   {"source-dir", "src"},
      {"namespace", "My Team"}, {"node-selector", "h100"}, {"service-account", "a_b"},
  };
  for (const auto& word : wrong) {
    INFO(word.first << " = " << word.second);
    const std::vector<std::string> mistakes = mistakes_of({{"image", "x"}, word});
    REQUIRE(mistakes.size() == 1);
    CHECK_THAT(mistakes[0], Contains("[kubernetes] " + word.first + " is '" + word.second + "'; it takes "));
  }
}

TEST_CASE("GPUs of another maker have a resource of another name", "[places]") {
  JobDescription job;
  job.kubernetes = {{"image", "x"}, {"gpus", "amd.com/gpu:4"}};
  const KubernetesWords words = read_kubernetes_words(job);
  CHECK(words.mistakes.empty());
  CHECK(words.settings.gpu_resource == "amd.com/gpu");
  CHECK(words.settings.gpus == "4");
}

TEST_CASE("a record's id becomes a name for Kubernetes", "[places]") {
  CHECK(kubernetes_name("digits-x3k9p2") == "digits-x3k9p2");
  CHECK(kubernetes_name("My_Job.v2-x3k9p2") == "my-job-v2-x3k9p2");
  CHECK(kubernetes_name("3d-x3k9p2") == "job-3d-x3k9p2");
  const std::string shortened = kubernetes_name(std::string(80, 'a') + "-x3k9p2");
  CHECK(shortened == std::string(36, 'a') + "-x3k9p2");
}

TEST_CASE("kubectl's answer about a Job becomes a state", "[places]") {
  CHECK(state_of({}).phase == Phase::gone);
  CHECK(state_from_kubernetes("nonsense").phase == Phase::gone);
  CHECK(state_of({job_with({condition("Complete")})}).exit_code == 0);

  const PlaceState queued =
      state_of({job_with({}), pod("0", "Pending", "", {{"waiting", {{"reason", "ImagePullBackOff"}}}})});
  CHECK(queued.phase == Phase::queued);
  CHECK(queued.detail == "waiting: ImagePullBackOff");

  const json running = {{"running", json::object()}};
  const PlaceState runs = state_of({job_with({}), pod("0", "Failed", "n0", ended(75)),
                                    pod("1", "Running", "n1", running, "2"), pod("0", "Running", "n2", running, "3")});
  CHECK(runs.phase == Phase::running);
  CHECK(runs.detail == "2 of 2 pods run");
  CHECK(runs.where == "n1,n2");
  CHECK(runs.requeues == 1);
}

TEST_CASE("a failed Job has the code of its pod", "[places]") {
  const PlaceState final = state_of({job_with(
      {condition("Failed", "PodFailurePolicy",
                 "Container ddprun for pod a/b-0-x failed with exit code 93 matching FailJob rule at index 0")})});
  CHECK(final.phase == Phase::failed);
  CHECK(final.exit_code == 93);
  CHECK_THAT(final.detail, Contains("PodFailurePolicy: Container ddprun"));

  const PlaceState often =
      state_of({job_with({condition("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit")}),
                pod("1", "Failed", "n1", ended(143)), pod("0", "Failed", "n0", ended(1), "2")});
  CHECK(often.exit_code == 1);

  const PlaceState over =
      state_of({job_with({condition("Failed", "DeadlineExceeded", "Job was active longer than specified deadline")})});
  CHECK(over.phase == Phase::stopped);
}

TEST_CASE("a JobSet's restarts count", "[places]") {
  json set = job_with({condition("Completed", "AllJobsCompleted", "jobset completed successfully")}, "JobSet");
  set["status"]["restarts"] = 3;
  const PlaceState state = state_of({set});
  CHECK(state.phase == Phase::succeeded);
  CHECK(state.requeues == 3);
  CHECK(state_of({job_with({condition("Failed", "", "", "False")}, "JobSet")}).phase == Phase::queued);
}

TEST_CASE("a string in YAML stays one", "[places]") {
  CHECK(yaml_string("digits-x3k9p2") == "digits-x3k9p2");
  CHECK(yaml_string("/data") == "/data");
  for (const char* text :
       {"", "1", "1e3", "yes", "No", "null", "~", "a: b", "- a", "*x", "a#b", "{x}", "-", ".5", "a,b"})
    CHECK(yaml_string(text) == "\"" + std::string(text) + "\"");
  CHECK(yaml_string("a\"\\\n\x01") == R"("a\"\\\n\u0001")");
}

TEST_CASE("lines are kept readable in YAML where that keeps every byte", "[places]") {
  CHECK(yaml_lines("a\n\n  b\n", 2) == "|2\n    a\n\n      b");
  for (const char* text : {"", "\n", "no end", "two ends\n\n", "a\r\n", "\xc3\xa9\n", "\x01\n"})
    CHECK(yaml_lines(text, 2) == yaml_string(text));
}

TEST_CASE("Kubernetes leaves an argument alone", "[places]") {
  CHECK(without_expansion("$(HOME) $$ $5") == "$$(HOME) $$$$ $$5");
}

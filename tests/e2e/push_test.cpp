// --otlp and the progress for Kubeflow Trainer, of real jobs, to receivers that read what comes strictly.
#include <nlohmann/json.hpp>

#include "tests/e2e/hang_job.h"
#include "tests/e2e/programs.h"
#include "tests/support/test.h"
#include "tests/support/test_certificate.h"

using nlohmann::json;

namespace {

using Variables = std::map<std::string, std::optional<std::string>>;

const std::vector<std::string> kWorker = {programs_folder() + "/hang_worker", "100000"};

bool can_receive(const std::string& module) {
  if (run({venv_python(), "-c", "import " + module}, kLimit).code == 0) return true;
  WARN("skipped: no " + module + " in .venv (scripts/setup.sh --test)");
  return false;
}

class Receiver {
 public:
  explicit Receiver(std::vector<std::string> words)
      : process_([&] {
          words.insert(words.begin(), {venv_python(), source_folder() + "/tests/e2e/push_receiver.py"});
          return words;
        }()) {
    port_ = process_.wait_for_output("listens on ([0-9]+)", kLimit).at(1);
  }

  std::string url(const std::string& scheme, const std::string& host = "localhost") const {
    return scheme + "://" + host + ":" + port_;
  }
  // The first request from now on that satisfies the condition.
  template <class Condition>
  json request_when(Condition holds) {
    json found;
    const bool came = eventually(
        [&] {
          for (; next_ < lines().size(); ++next_)
            if (const json one = json::parse(lines()[next_], nullptr, false); one.is_object() && holds(one))
              return found = one, true;
          return false;
        },
        kLimit);
    CAPTURE(process_.out(), process_.err());
    CHECK(came);
    return found;
  }

 private:
  std::vector<std::string> lines() {
    const std::string& said = process_.out();
    return lines_of(said.substr(0, said.rfind('\n') + 1));  // the last one may be half written
  }
  Command process_;
  std::string port_;
  std::size_t next_ = 0;
};

const Variables kOften = {{"OTEL_METRIC_EXPORT_INTERVAL", "1000"}};

// Of a metric with one point, or the one with that attribute; -1: there is none.
double point(const json& request, const std::string& metric, const std::string& name = "",
             const std::string& value = "") {
  if (!request.is_object() || !request["metrics"].contains(metric)) return -1;
  for (const json& one : request["metrics"][metric]["points"])
    if (name.empty() || one["attributes"].value(name, "") == value) return one["value"];
  return -1;
}

std::vector<std::string> job_words(std::vector<std::string> options,
                                   const std::vector<std::string>& program = kWorker) {
  options.insert(options.begin(), {ddprun_program(), "--nproc-per-node=2"});
  options.insert(options.end(), program.begin(), program.end());
  return options;
}

}  // namespace

TEST_CASE("metrics are pushed by OTLP as they are served, through a restart", "[push][sanitized]") {
  if (!can_receive("opentelemetry.proto")) return;
  const TempFolder folder;
  Receiver collector({"otlp"});
  Variables env = kOften;
  env["OTEL_EXPORTER_OTLP_HEADERS"] = "api-key=a%20b";
  env["OTEL_RESOURCE_ATTRIBUTES"] = "k8s.pod.name=p1,service.name=mine";
  Command job(job_words({"--rdzv-id=pushed", "--max-restarts=1", "--otlp=" + collector.url("http")}),
              {.env = env, .cwd = folder.path()});
  const json first = collector.request_when(
      [](const json& now) { return point(now, "ddprun_round") == 1 && point(now, "ddprun_step", "rank", "1") > 3; });
  CHECK(first["resource"]["service.name"] == "ddprun");
  CHECK(first["resource"]["ddprun.run_id"] == "pushed");
  CHECK(first["resource"]["k8s.pod.name"] == "p1");
  CHECK(first["resource"].contains("service.instance.id"));
  CHECK(first["resource"].contains("host.name"));
  CHECK(first["headers"]["api-key"] == "a b");
  CHECK(first["path"] == "/v1/metrics");
  CHECK(point(first, "ddprun_restarts", "cause", "crash") == 0);
  CHECK(first["metrics"]["ddprun_restarts"]["kind"] == "sum");
  CHECK(first["metrics"]["ddprun_worker_rss_bytes"]["unit"] == "By");
  for (const Process& worker : job.processes())
    if (worker.command_line.starts_with(programs_folder() + "/hang_worker")) {
      kill(worker.pid, SIGSEGV);
      break;
    }
  collector.request_when([](const json& now) {
    return point(now, "ddprun_round") == 2 && point(now, "ddprun_restarts", "cause", "crash") == 1;
  });
}

TEST_CASE("OTLP goes over https to a collector that an authority vouches for", "[push][tls][sanitized]") {
  if (!can_receive("opentelemetry.proto")) return;
  const TempFolder folder, folder_of_refused;
  const TestCertificate good = make_certificate(folder, "good", "DNS:localhost"),
                        other = make_certificate(folder, "other", "DNS:localhost");
  Receiver collector({"otlp", "--cert=" + good.certificate, "--key=" + good.key});
  Variables env = kOften;
  env["OTEL_EXPORTER_OTLP_ENDPOINT"] = collector.url("https") + "/base/";
  env["OTEL_EXPORTER_OTLP_CERTIFICATE"] = good.certificate;
  Command job(job_words({"--otlp=env"}), {.env = env, .cwd = folder.path()});
  const json came = collector.request_when([](const json& now) { return point(now, "ddprun_ready") == 1; });
  CHECK(came["path"] == "/base/v1/metrics");
  env["OTEL_EXPORTER_OTLP_CERTIFICATE"] = other.certificate;
  Command refused(job_words({"--otlp=env"}), {.env = env, .cwd = folder_of_refused.path()});
  refused.wait_for_output("cannot push metrics to https://localhost:[0-9]+/base/v1/metrics: its certificate is refused",
                          kLimit);
}

TEST_CASE("a collector that is gone, refuses or does not answer stops no job, and is named once", "[push]") {
  if (!can_receive("opentelemetry.proto")) return;
  Receiver silent({"otlp", "--silent"}), refuses({"otlp", "--status=503", "--retry-after=1"});
  const std::vector<std::string> steps = {programs_folder() + "/hang_worker", "300"};
  Variables env = kOften;
  env["OTEL_EXPORTER_OTLP_TIMEOUT"] = "500";
  for (const std::string& url : {silent.url("http"), refuses.url("http"), std::string("http://localhost:1"),
                                 refuses.url("https"), std::string("http://no-such-host.invalid")}) {
    const TempFolder folder;
    const Ended job = run(job_words({"--otlp=" + url}, steps), 60s, {.env = env, .cwd = folder.path()});
    CAPTURE(url);
    CHECK(job == exited(0));
    const std::size_t first = job.err.find("ddprun: cannot push metrics to " + url);
    CHECK(first != std::string::npos);
    CHECK(job.err.find("cannot push", first + 20) == std::string::npos);
  }
}

TEST_CASE("Kubeflow Trainer is told the job's progress over https, with the pod's token", "[push][kubeflow]") {
  if (!can_receive("kubeflow_trainer_api")) return;
  const TempFolder folder;
  const TestCertificate good = make_certificate(folder, "good", "DNS:localhost");
  Receiver trainer({"kubeflow", "--cert=" + good.certificate, "--key=" + good.key});
  folder.write("token", "first.token\n");
  const std::string path = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/n/trainjobs/j/status";
  const Variables env = {{"KUBEFLOW_TRAINER_SERVER_URL", trainer.url("https") + path},
                         {"KUBEFLOW_TRAINER_SERVER_CA_CERT", good.certificate},
                         {"KUBEFLOW_TRAINER_SERVER_TOKEN", folder / "token"},
                         {"OUTLOOK", "1"}};
  ThreeRanks job(3, {"--rdzv-id=told"}, {programs_folder() + "/hang_worker", "2000"}, env);
  const json running = trainer.request_when([](const json& now) { return now.contains("metrics"); });
  CHECK(running["headers"]["authorization"] == "Bearer first.token");
  CHECK(running["path"] == path);
  CHECK(running["metrics"][0]["name"] == "step");
  CHECK(running.value("progressPercentage", -1) >= 0);
  CHECK(running.value("progressPercentage", 100) < 100);
  CHECK(running.value("estimatedRemainingSeconds", -1) >= 0);
  CHECK(running["metrics"].dump().find(R"({"name":"loss","value":"0.5"})") != std::string::npos);
  folder.write("token", "second.token\n");
  job.all_end_well(120s);
  const json last = trainer.request_when([](const json& now) { return now.value("progressPercentage", 0) == 100; });
  CHECK(last["headers"]["authorization"] == "Bearer second.token");
  CHECK(last["metrics"][0]["value"] == "2000");
}

TEST_CASE("progress that Kubeflow Trainer does not take stops no job", "[push][kubeflow]") {
  for (const std::string& url : {std::string("https://localhost:1/status"), std::string("nonsense")}) {
    const Variables env = {{"KUBEFLOW_TRAINER_SERVER_URL", url}, {"KUBEFLOW_TRAINER_SERVER_TOKEN", "/nowhere/token"}};
    const TempFolder folder;
    const Ended job =
        run(job_words({}, {programs_folder() + "/hang_worker", "300"}), 60s, {.env = env, .cwd = folder.path()});
    CHECK(job == exited(0));
    CHECK(has(job.err, "ddprun: cannot push progress to "));
  }
}

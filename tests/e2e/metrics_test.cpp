// --metrics of real jobs: on one machine, each node's port asked for itself; and --page in a real browser.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <regex>

#include <nlohmann/json.hpp>

#include "rendezvous/base/fd.h"
#include "tests/e2e/hang_job.h"
#include "tests/e2e/programs.h"
#include "tests/support/free_port.h"
#include "tests/support/test.h"
#include "tests/support/test_certificate.h"

using nlohmann::json;

namespace {

constexpr const char* kSteps = "3000";
const std::map<std::string, std::optional<std::string>> kTells = {{"LOGLEVEL", "INFO"}};  // the port that is taken

// All that comes until the port's end closes. Empty: nothing listens, or nothing came.
std::string talk(int port, const std::string& bytes) {
  const Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const timeval limit{.tv_sec = 20};
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  std::string out;
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return out;
  if (send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) return out;
  char some[4096];
  for (ssize_t count; (count = recv(fd.get(), some, sizeof some, 0)) > 0;) out.append(some, count);
  return out;
}

std::string get(int port, const std::string& path, const std::string& headers = "") {
  return talk(port, "GET " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + headers + "\r\n");
}

bool is_200(const std::string& answer) { return answer.starts_with("HTTP/1.1 200 "); }
std::string body_of(const std::string& answer) {
  const std::size_t end = answer.find("\r\n\r\n");
  return end == std::string::npos ? "" : answer.substr(end + 4);
}

// Of "ddprun_step{rank=\"0\"" for example; empty: there is no such sample.
std::optional<double> value(const std::string& text, const std::string& begins) {
  const std::size_t at = ("\n" + text).find("\n" + begins);
  if (at == std::string::npos) return {};
  const std::size_t end = std::min(text.find('\n', at), text.size());
  return std::stod(text.substr(text.rfind(' ', end - 1), end));
}

int port_of(Command& agent) {
  const auto match = agent.wait_for_output("metrics are at http://[^ ]*:([0-9]+)/metrics", kLimit);
  return std::stoi(match.at(1));
}

// The metrics of a node once they satisfy the condition.
template <class Condition>
std::string metrics_when(int port, Condition holds) {
  std::string text;
  const bool came = eventually(
      [&] {
        text = body_of(get(port, "/metrics"));
        return !text.empty() && holds(text);
      },
      kLimit);
  CAPTURE(text);
  CHECK(came);
  return text;
}

bool steps_in(const std::string& text, int round) {
  return value(text, "ddprun_round ") == round && text.find("\nddprun_step{") != std::string::npos;
}

bool has_promtool() { return run({"sh", "-c", "command -v promtool"}, kLimit).code == 0; }

}  // namespace

TEST_CASE("every node serves the job's metrics and those of its own ranks, as the status tells them",
          "[metrics][nodes][sanitized]") {
  ThreeRanks job(3, {"--rdzv-id=measured", "--metrics=0"}, {programs_folder() + "/hang_worker", kSteps}, kTells);
  for (int node = 0; node < 3; ++node) {
    const int port = port_of(*job.agents[node]);
    const std::string text = metrics_when(port, [](const std::string& now) {
      return steps_in(now, 1) && value(now, "ddprun_job_state{state=\"running\"} ") == 1;
    });
    CHECK(value(text, "ddprun_ready ") == 1);
    CHECK(value(text, "ddprun_world_size ") == 3);
    CHECK(value(text, "ddprun_nodes{state=\"active\"} ") == 3);
    CHECK(value(text, "ddprun_coordinator_reachable ") == 1);
    CHECK(value(text, "ddprun_workers{state=\"ended\"} ") == 0);
    CHECK(text.find("run_id=\"measured\"") != std::string::npos);
    const std::size_t first = text.find("\nddprun_worker_rss_bytes{");
    CHECK(first != std::string::npos);
    CHECK(text.find("\nddprun_worker_rss_bytes{", first + 1) == std::string::npos);  // of its one rank
    CHECK(body_of(get(port, "/healthz")) == "ok\n");
    CHECK(body_of(get(port, "/readyz")) == "round 1 runs\n");
    const json status = json::parse(body_of(get(port, "/status")));
    CHECK(status["run_id"] == "measured");
    CHECK(status["ranks"].size() == 3);
    CHECK(get(port, "/elsewhere").starts_with("HTTP/1.1 404 "));
  }
}

// With Prometheus's API, which sends a body of unknown length to HTTP/1.1 only.
double asked_prometheus(int port, const std::string& query) {
  const std::string answer = talk(port, "GET /api/v1/query?query=" + query + " HTTP/1.0\r\n\r\n");
  const json all = json::parse(body_of(answer), nullptr, /*allow_exceptions=*/false);
  if (!all.is_object() || !all.contains("data") || all["data"]["result"].empty()) return -1;
  return std::stod(all["data"]["result"][0]["value"][1].get<std::string>());
}

// Of these nodes; none where no Prometheus is installed.
std::unique_ptr<Command> prometheus_of(const std::vector<int>& nodes, int port, const TempFolder& folder) {
  if (run({"sh", "-c", "command -v prometheus"}, kLimit).code != 0) {
    WARN("without a Prometheus, of Debian's package of that name");
    return {};
  }
  std::string targets;
  for (const int node : nodes)
    targets += (targets.empty() ? "" : ", ") + ("\"localhost:" + std::to_string(node) + "\"");
  folder.write("prometheus.yaml",
               "global: {scrape_interval: 200ms}\nscrape_configs:\n  - job_name: ddprun\n"
               "    scrape_timeout: 200ms\n    static_configs: [{targets: [" +
                   targets + "]}]\n");
  return std::make_unique<Command>(
      std::vector<std::string>{"prometheus", "--config.file=prometheus.yaml", "--storage.tsdb.path=data",
                               "--web.listen-address=127.0.0.1:" + std::to_string(port)},
      CommandOptions{.cwd = folder.path()});
}

TEST_CASE("metrics go on through a restart and the loss of the coordinator, and a Prometheus follows them",
          "[metrics][nodes]") {
  ThreeRanks job(3, {"--rdzv-id=scraped", "--metrics=0", "--nnodes=2:3"},
                 {programs_folder() + "/hang_worker", "100000"}, kTells);
  std::vector<int> ports;
  for (auto& agent : job.agents) ports.push_back(port_of(*agent));
  const TempFolder folder;
  const int place = free_port();
  const auto prometheus = prometheus_of(ports, place, folder);
  const auto tells = [&](const std::string& query, double value) {
    return !prometheus || eventually([&] { return asked_prometheus(place, query) == value; }, kLimit);
  };
  CHECK(tells("sum(ddprun_ready)", 3));
  const std::string before = metrics_when(ports[2], [](const std::string& now) { return steps_in(now, 1); });
  CHECK(value(before, "ddprun_restarts_total{cause=\"crash\"} ") == 0);
  kill(job.worker(1), SIGSEGV);
  double failures = 0;
  for (const int port : ports) {
    const std::string after = metrics_when(port, [](const std::string& now) { return steps_in(now, 2); });
    CHECK(value(after, "ddprun_restarts_total{cause=\"crash\"} ") == 1);
    CHECK(value(after, "ddprun_restarts_charged ") == 1);
    CHECK(value(after, "ddprun_elections_total ") == 0);
    CHECK(value(after, "ddprun_round_form_seconds_count ") == 2);
    CHECK(value(after, "ddprun_recovery_seconds_count{cause=\"crash\"} ") == 1);
    failures += value(after, "ddprun_failures_total{class=\"crash\"} ").value_or(0);
    CHECK(value(after, "ddprun_step_seconds_count ").value_or(0) > 0);
  }
  CHECK(failures == 1);
  CHECK(tells("count(ddprun_step)%2Bmin(ddprun_round)*10", 23));
  CHECK(tells("min(ddprun_restarts_total{cause=%22crash%22})", 1));
  job.agents[0]->kill(SIGKILL);
  for (const int port : {ports[1], ports[2]}) {
    const std::string after = metrics_when(port, [](const std::string& now) { return steps_in(now, 3); });
    CHECK(value(after, "ddprun_elections_total ").value_or(0) >= 1);
    CHECK(value(after, "ddprun_restarts_total{cause=\"lost_node\"} ") == 1);
    CHECK(value(after, "ddprun_world_size ") == 2);
  }
  CHECK(tells("sum(up)", 2));
  CHECK(tells("min(ddprun_elections_total)%3E%3Dbool%201", 1));
  CHECK(tells("min(ddprun_restarts_total{cause=%22lost_node%22})", 1));
  CHECK(tells("sum(ddprun_ready)", 2));
}

TEST_CASE("a node without a round is alive, but not ready", "[metrics]") {
  Command job({ddprun_program(), "--nnodes=2", "--rdzv-backend=c10d", "--rdzv-id=alone",
               "--rdzv-endpoint=localhost:" + std::to_string(free_port()), "--metrics=0", "--no-python", "true"},
              {.env = kTells});
  const int port = port_of(job);
  CHECK(body_of(get(port, "/healthz")) == "ok\n");
  const std::string ready = get(port, "/readyz");
  CHECK(ready.starts_with("HTTP/1.1 503 "));
  CHECK(body_of(ready) == "503: no round runs on this node, which is waiting.\n");
  CHECK(value(body_of(get(port, "/metrics")), "ddprun_ready ") == 0);
}

TEST_CASE("a node whose workers have ended well is ready while it waits for the others", "[metrics][nodes]") {
  const TempFolder folder;
  const std::string script = "test $RANK = 0 && exit 0; while ! test -e end; do sleep 0.05; done";
  std::vector<std::unique_ptr<Command>> nodes;
  const std::string endpoint = "--rdzv-endpoint=localhost:" + std::to_string(free_port());
  for (int node = 0; node < 2; ++node)
    nodes.push_back(std::make_unique<Command>(
        std::vector<std::string>{ddprun_program(), "--nnodes=2", "--rdzv-backend=c10d", "--rdzv-id=barrier", endpoint,
                                 "--node-rank=" + std::to_string(node), "--metrics=0", "--no-python", "sh", "-c",
                                 script},
        CommandOptions{.env = kTells, .cwd = folder.path()}));
  const int port = port_of(*nodes[0]);
  metrics_when(port, [](const std::string& now) { return value(now, "ddprun_nodes{state=\"done\"} ") == 1; });
  CHECK(value(body_of(get(port, "/metrics")), "ddprun_workers{state=\"ended\"} ") == 1);
  CHECK(is_200(get(port, "/readyz")));
  CHECK(is_200(get(port, "/healthz")));
  folder.write("end", "");
  for (auto& node : nodes) CHECK(node->wait_exit(kLimit) == exited(0));
  CHECK(get(port, "/healthz").empty());  // closed
}

TEST_CASE("over http a line of output is told only where a token is asked for", "[metrics]") {
  const TempFolder folder;
  const std::string file = token_file(folder),
                    header = "Authorization: Bearer " + read_file(file).substr(0, 64) + "\r\n";
  const auto started = [&](const std::string& name, const Words& more) {
    return joined({{ddprun_program(), "--metrics=0", "--rdzv-id=" + name, "--redirects=1",
                    "--log-dir=" + (folder / name).string()},
                   more,
                   {"--no-python", "sh", "-c", "echo epoch 1; exec sleep 300"}});
  };
  const auto told = [](int port, const std::string& headers) {
    return json::parse(body_of(get(port, "/status", headers)))["last_output"];
  };
  Command closed(started("closed", {"--metrics-token-file=" + file}), {.env = kTells});
  Command open(started("open", {}), {.env = kTells});
  const int closed_port = port_of(closed), open_port = port_of(open);
  CHECK(eventually([&] { return told(closed_port, header).is_object(); }, kLimit));
  CHECK(told(closed_port, header)["line"] == "epoch 1");
  const auto by_socket = [] { return run({ddprun_program(), "status", "--json", "open"}, kLimit).out; };
  CHECK(eventually([&] { return has(by_socket(), "epoch 1"); }, kLimit));
  CHECK(told(open_port, "").is_null());
}

TEST_CASE("with a token only who shows it sees anything of the job", "[metrics]") {
  const TempFolder folder;
  const std::string file = token_file(folder), secret = read_file(file).substr(0, 64);
  Command job({ddprun_program(), "--rdzv-id=secret-name", "--metrics=0.0.0.0:0", "--metrics-token-file=" + file,
               "--no-python", "sleep", "300"},
              {.env = kTells});
  const int port = port_of(job);
  for (const char* path : {"/metrics", "/status", "/", "/elsewhere"})
    for (const std::string& wrong : {std::string(), "Authorization: Bearer " + secret.substr(1) + "0\r\n",
                                     std::string("Authorization: Basic eA==\r\n")}) {
      const std::string answer = get(port, path, wrong);
      CHECK(answer.starts_with("HTTP/1.1 401 "));
      CHECK(answer.find("secret-name") == std::string::npos);
    }
  CHECK(is_200(get(port, "/metrics", "Authorization: Bearer " + secret + "\r\n")));
  CHECK(is_200(get(port, "/healthz")));
  CHECK(eventually([&] { return is_200(get(port, "/readyz")); }, kLimit));
  CHECK(get(port, "/readyz").find("secret-name") == std::string::npos);
}

// Asks by Python's own TLS, which checks the certificate and the name; then prints "code body".
Ended ask_by_https(int port, const std::string& authority, const std::string& path, const std::string& token = "") {
  const std::string client =
      "import ssl, sys, urllib.request, urllib.error\n"
      "url, authority, token = sys.argv[1:4]\n"
      "request = urllib.request.Request(url, headers={'Authorization': 'Bearer ' + token} if token else {})\n"
      "try:\n"
      "    answer = urllib.request.urlopen(request, timeout=20, context=ssl.create_default_context(cafile=authority))\n"
      "    print(answer.status, answer.read().decode())\n"
      "except urllib.error.HTTPError as error:\n"
      "    print(error.code)\n";
  return run({venv_python(), "-c", client, "https://localhost:" + std::to_string(port) + path, authority, token},
             kLimit);
}

TEST_CASE("over https the metrics are read by who trusts the certificate and shows the token",
          "[metrics][tls][sanitized]") {
  const TempFolder folder;
  const TestCertificate good = make_certificate(folder, "good", "DNS:localhost"),
                        other = make_certificate(folder, "other", "DNS:localhost");
  const std::string file = token_file(folder), secret = read_file(file).substr(0, 64);
  Command job({ddprun_program(), "--metrics=0.0.0.0:0", "--metrics-token-file=" + file,
               "--metrics-cert=" + good.certificate, "--metrics-key=" + good.key, "--no-python", "sleep", "300"},
              {.env = kTells});
  const auto said = job.wait_for_output("metrics are at (https?)://[^ ]*:([0-9]+)/metrics", kLimit);
  CHECK(said.at(1) == "https");
  const int port = std::stoi(said.at(2));
  CHECK(ask_by_https(port, good.certificate, "/healthz").out == "200 ok\n\n");
  CHECK(ask_by_https(port, good.certificate, "/metrics").out == "401\n");
  CHECK(ask_by_https(port, good.certificate, "/metrics", secret).out.find("\nddprun_round 1\n") != std::string::npos);
  CHECK(ask_by_https(port, other.certificate, "/healthz").err.find("CERTIFICATE_VERIFY_FAILED") != std::string::npos);
  CHECK(get(port, "/healthz").empty());  // without TLS
  const std::string place = "localhost:" + std::to_string(port);
  for (const char* version : {"-tls1_2", "-tls1_3"})
    CHECK(run({"openssl", "s_client", "-connect", place, "-CAfile", good.certificate, "-verify_return_error", version},
              kLimit, {.input = ""}) == exited(0));
  CHECK(run({"openssl", "s_client", "-connect", place, "-tls1_1", "-cipher", "ALL:@SECLEVEL=0"}, kLimit, {.input = ""})
            .code != 0);
}

TEST_CASE("a certificate that cannot be used is said before the job starts", "[metrics][tls]") {
  const TempFolder folder;
  const TestCertificate one = make_certificate(folder, "one", "DNS:localhost"),
                        two = make_certificate(folder, "two", "DNS:localhost");
  const Ended job = run({ddprun_program(), "--metrics=0", "--metrics-cert=" + one.certificate,
                         "--metrics-key=" + two.key, "--no-python", "echo", "started"},
                        kLimit);
  CHECK(job == exited(2));
  CHECK(job.out.empty());
  CHECK(job.err.find("ddprun: cannot set up TLS for the metrics: the key " + two.key + " cannot be used: ") == 0);
}

TEST_CASE("a port that is taken is said before the job starts", "[metrics]") {
  Command first({ddprun_program(), "--metrics=0", "--no-python", "sleep", "300"}, {.env = kTells});
  const std::string port = std::to_string(port_of(first));
  const Ended second = run({ddprun_program(), "--metrics=" + port, "--no-python", "echo", "started"}, kLimit);
  CHECK(second.code != 0);
  CHECK(second.out.empty());
  CHECK(second.err == "ddprun: cannot bind the metrics to 127.0.0.1:" + port +
                          ": Address already in use. Pass another --metrics, or 0 for any free one.\n");
}

TEST_CASE("promtool accepts the alert rules, which say what they are to say", "[metrics]") {
  const std::string folder = source_folder() + "/scripts/monitoring";
  CHECK(json::parse(read_file(folder + "/ddprun-grafana.json"))["panels"].size() > 10);
  if (skipped_if(!has_promtool(), "no promtool, of Debian's package prometheus")) return;
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"promtool", "check", "rules", folder + "/ddprun-alerts.yaml"},
        {"promtool", "check", "config", folder + "/prometheus.yaml"},
        {"promtool", "test", "rules", source_folder() + "/tests/e2e/testdata/alerts_test.yaml"}})
    CHECK(run(words, kLimit) == exited(0));
}

TEST_CASE("promtool and the OpenMetrics parser of prometheus-client read the metrics", "[metrics]") {
  Command job({ddprun_program(), "--metrics=0", "--no-python", "sleep", "300"}, {.env = kTells});
  const int port = port_of(job);
  const std::string text = body_of(get(port, "/metrics"));
  CHECK(text.find("ddprun_uptime_seconds") != std::string::npos);
  if (has_promtool())
    CHECK(run({"promtool", "check", "metrics"}, kLimit, {.input = text}) == exited(0));
  else
    WARN("skipped: no promtool, of Debian's package prometheus");
  if (run({venv_python(), "-c", "import prometheus_client"}, kLimit).code != 0) {
    WARN("skipped: no prometheus-client in .venv (scripts/setup.sh --test)");
    return;
  }
  const std::string answer = get(port, "/metrics", "Accept: application/openmetrics-text; version=1.0.0\r\n");
  CHECK(answer.find("\r\nContent-Type: application/openmetrics-text; version=1.0.0;") != std::string::npos);
  const std::string parser =
      "import sys; from prometheus_client.openmetrics import parser\n"
      "print(len(list(parser.text_string_to_metric_families(sys.stdin.read()))))";
  const Ended read = run({venv_python(), "-c", parser}, kLimit, {.input = body_of(answer)});
  CHECK(read == exited(0));
  CHECK(std::stoi("0" + read.out) > 15);
}

TEST_CASE("a browser shows the job, a restart, the loss of its agent, and its report", "[page]") {
  const TempFolder folder;
  const Ended ended = run({venv_python(), source_folder() + "/tests/e2e/page/browse.py", ddprun_program(),
                           programs_folder() + "/hang_worker", folder.path()},
                          600s);
  if (ended.code == 77) {
    WARN(ended.out);
    return;
  }
  CAPTURE(ended.out, ended.err);
  CHECK(ended == exited(0));
}

TEST_CASE("the page shows eight moments of a job at all widths, to the keyboard too, as its pictures are", "[page]") {
  const TempFolder folder;
  const Ended ended = run({venv_python(), source_folder() + "/tests/e2e/page/moments_check.py", folder.path()}, 300s);
  if (ended.code == 77) {
    WARN(ended.out);
    return;
  }
  CAPTURE(ended.out, ended.err);
  CHECK(ended == exited(0));
}

// Of "stands still for 1.1 s: ...", the words behind the time; empty: it is not there.
std::string standstill_in(const std::string& text) {
  std::smatch found;
  const std::regex words("stands still for [0-9.]+ s: (ranks? [^\"\n,]*(?:, [0-9][^\"\n,]*)*\\))");
  return std::regex_search(text, found, words) ? found[1].str() : "";
}

TEST_CASE("once a rank is stopped all views say so in the same words, whatever ends hangs", "[page][status]") {
  const std::string timeout = GENERATE("auto", "off", "600");
  const TempFolder folder;
  Command job({ddprun_program(), "--nproc-per-node=3", "--rdzv-id=all-views-" + timeout, "--hang-timeout=" + timeout,
               "--metrics=0", "--page", "--no-python", programs_folder() + "/hang_worker", kSteps},
              {.env = {{"OUTLOOK", "1"}}, .cwd = folder.path()});
  const int port = std::stoi(job.wait_for_output("page: http://localhost:([0-9]+)/", kLimit)[1]);
  const std::string id = "all-views-" + timeout;
  metrics_when(port, [](const std::string& text) { return value(text, "ddprun_step{").value_or(0) > 10; });
  const json status = json::parse(body_of(get(port, "/status")));
  CHECK(status["condition"]["text"] == "running");
  CHECK(status["steps_per_second"] > 0);
  const pid_t stopped = status["ranks"][1]["pid"];
  Command page({venv_python(), "-c",
                "import sys, urllib.request\nfor line in urllib.request.urlopen(sys.argv[1]): print(line.decode(), "
                "end='', flush=True)",
                "http://localhost:" + std::to_string(port) + "/live"});
  page.wait_for_output("event: whole", kLimit);
  const Mark at_stop = page.mark();
  REQUIRE(kill(stopped, SIGSTOP) == 0);
  page.wait_for_output(
      "event: change\ndata: [^\n]*stands still for [0-9.]+ s: ranks 0 and 2 wait for rank 1 \\(stopped\\)", kLimit);
  // It looks once a second: the look that still sees steps, and the two seconds after it.
  const std::string until = page.out().substr(at_stop.out, page.out().find("stands still", at_stop.out) - at_stop.out);
  CHECK(count(until, "event: change") <= 3);
  if (timeout == "auto") return;  // it is ended right after
  const std::string words = "ranks 0 and 2 wait for rank 1 (stopped)";
  const auto says = [&](const char* command) {
    return standstill_in(run({ddprun_program(), command, id}, kLimit).out) == words;
  };
  CHECK(eventually([&] { return says("status"); }, kLimit));
  CHECK(says("top"));
  const std::string metrics = body_of(get(port, "/metrics"));
  CHECK(value(metrics, "ddprun_job_condition{condition=\"stands still\"") == 1);
  CHECK(value(metrics, "ddprun_steps_per_second") == 0);
  const json still = json::parse(body_of(get(port, "/status")));
  CHECK(still["condition"]["level"] == "attention");
  CHECK(still["time"]["useful_share"] < status["time"]["useful_share"]);
  CHECK(still["progress"]["seconds_left"].is_null());
  REQUIRE(kill(stopped, SIGCONT) == 0);
  metrics_when(port, [](const std::string& text) {
    return value(text, "ddprun_job_condition{condition=\"running\"") == 1 &&
           value(text, "ddprun_steps_per_second").value_or(0) > 0;
  });
}

TEST_CASE("a page without a port for it takes a free one, and its address is said", "[page]") {
  Command job({ddprun_program(), "--page", "--no-python", "sleep", "60"});
  const auto port = job.wait_for_output("ddprun: page: http://localhost:([0-9]+)/\n", kLimit);
  CHECK(is_200(get(std::stoi(port[1]), "/")));
  job.kill(SIGTERM);
  CHECK(job.wait_exit(kLimit) == exited(143));
}

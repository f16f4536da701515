// The events of whole jobs, run by an agent in a process of its own, as a program that reads the log finds them.
#include "agent/tell/job_events.h"

#include <sys/syscall.h>

#include <nlohmann/json.hpp>

#include "agent/agent.h"
#include "tests/support/test.h"

using Json = nlohmann::json;

namespace {

struct JobRun {
  std::string script;
  int workers = 1;
  int max_restarts = 0;
};

[[noreturn]] void be_agent(const JobRun& job, const std::string& log, int keeper) {
  dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);  // its report is not this test's
  AgentOptions options;
  options.workers = job.workers;
  options.command = {
      "sh", "/bin/sh", {"sh", "-c", job.script}, {{"PATH", "/usr/bin:/bin"}}, {"run-7", job.max_restarts}};
  options.master_host = options.store_address = "127.0.0.1";
  options.keeper_fd = keeper;
  options.logs.host = "node7";
  options.event_log = "file:" + log;
  options.timer_file = "";
  RoundPolicy policy;
  policy.restarts.max_restarts = job.max_restarts;
  const Outcome outcome = Agent(options, policy).run().outcome;
  _exit(outcome.verdict == Verdict::success ? 0 : 1);
}

std::vector<Json> events_of(const JobRun& job) {
  const TempFolder folder;
  const std::string log = folder / "events";
  const int keeper = static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0));
  const pid_t agent = fork();
  REQUIRE(agent >= 0);
  if (agent == 0) be_agent(job, log, keeper);
  close(keeper);
  waitpid(agent, nullptr, 0);
  std::vector<Json> events;
  std::istringstream lines(test::read_file(log));
  for (std::string line; std::getline(lines, line);) events.push_back(Json::parse(line));
  return events;
}

// "RENDEZVOUS START/0 START/1 FAILED/1": the rank behind a worker's.
std::string story(const std::vector<Json>& events) {
  std::string out;
  for (const Json& event : events) {
    const Json& metadata = event["metadata"];
    out += (out.empty() ? "" : " ") + metadata["state"].get<std::string>();
    if (event["source"] == "WORKER") out += "/" + std::to_string(metadata["global_rank"].get<int>());
  }
  return out;
}

}  // namespace

TEST_CASE("a job that goes well is told from rendezvous to success", "[job_events]") {
  const auto events = events_of({"sleep 0.5"});
  CHECK(story(events) == "RENDEZVOUS ASSIGN_WORKER_RANKS START/0 SUCCEEDED/0 SUCCEEDED");
  for (const Json& event : events) {
    const Json& metadata = event["metadata"];
    CHECK(metadata["run_id"] == "run-7");
    CHECK(metadata["hostname"] == "node7");
    CHECK(metadata["role"] == "default");
    CHECK(metadata["rdzv_backend"] == "static");
    CHECK(metadata["entry_point"] == "sh");
    CHECK(metadata["group_rank"] == 0);
    CHECK(metadata["round"] == 1);
    CHECK(event["name"] == "torchelastic.worker.status." + metadata["state"].get<std::string>());
  }
  CHECK(events[0]["metadata"]["duration_ms"].is_number());
  CHECK(events[3]["metadata"]["exit_code"] == 0);
  CHECK(events[3]["metadata"]["duration_ms"] >= 100);
  const auto started = events[2]["timestamp"].get<long long>(), ended = events[3]["timestamp"].get<long long>();
  CHECK(started > 1'700'000'000'000);
  CHECK(ended - started >= 100);  // less than the sleep where the machine is busy
}

TEST_CASE("the events tell the worker that failed from the one that was stopped", "[job_events]") {
  const auto events = events_of({"[ $RANK = 1 ] && exit 3; sleep 60", 2});
  CHECK(story(events) == "RENDEZVOUS ASSIGN_WORKER_RANKS START/0 START/1 FAILED/1 TERMINATED/0 REPORT FAILED");
  CHECK(events[4]["metadata"]["exit_code"] == 3);
  CHECK(events[4]["metadata"]["raw_error"] == "exited with code 3");
  CHECK(events[5]["metadata"]["exit_code"] == -15);
  CHECK(events[7]["metadata"]["raw_error"].get<std::string>().starts_with("rank 1 exited with code 3: "));
  CHECK(events[7]["metadata"]["failure_class"] == "error");
}

TEST_CASE("every round's events carry its number and the restarts so far", "[job_events]") {
  const auto events = events_of({"[ $DDPRUN_ROUND = 2 ] || exit 3", 1, 1});
  CHECK(story(events) ==
        "RENDEZVOUS ASSIGN_WORKER_RANKS START/0 FAILED/0 ROUND_ENDED RENDEZVOUS ASSIGN_WORKER_RANKS START/0 "
        "SUCCEEDED/0 SUCCEEDED");
  CHECK(events[3]["metadata"]["round"] == 1);
  CHECK(events[4]["metadata"]["failure_class"] == "error");
  CHECK(events[4]["metadata"]["failed_rank"] == "0");
  CHECK(events[4]["metadata"]["reason"] == "restart 1 of 1");
  CHECK(events[8]["metadata"]["round"] == 2);
  CHECK(events[8]["metadata"]["agent_restarts"] == 1);
}

TEST_CASE("a failed worker's event carries what it wrote to its error file", "[job_events]") {
  const auto events = events_of({R"(echo '{"message": "boom"}' > $TORCHELASTIC_ERROR_FILE; exit 1)"});
  CHECK(events[3]["metadata"]["raw_error"] == "boom");
}

TEST_CASE("a worker that leaves well after its timer has run out has failed in the events, too", "[job_events]") {
  const auto events =
      events_of({"trap 'exit 0' USR1; "
                 R"(echo "{\"pid\": $$, \"scope_id\": \"step\", \"expiration_time\": 1, \"signal\": 10}" )"
                 "> $TORCHELASTIC_TIMER_FILE; while :; do sleep 0.02; done"});
  CHECK(story(events) == "RENDEZVOUS ASSIGN_WORKER_RANKS START/0 RUNNING RUNNING FAILED/0 REPORT FAILED");
  CHECK(events[3]["name"] == "timer expired");
  CHECK(events[3]["metadata"]["scope_id"] == "step");
  CHECK(events[4]["name"] == "kill worker process");
  CHECK(events[5]["metadata"]["raw_error"].get<std::string>().starts_with("its timer 'step' expired after 0.0 s"));
}

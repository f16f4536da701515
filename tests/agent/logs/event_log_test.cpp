#include "agent/logs/event_log.h"

#include <nlohmann/json.hpp>

#include "agent/logs/job_end.h"
#include "rendezvous/base/error.h"
#include "tests/support/test.h"

using Json = nlohmann::json;

namespace {

JobEvent failure() {
  JobEvent event{.state = "FAILED", .when = std::chrono::system_clock::time_point(1'700'000'000'123ms)};
  event.job = {.run_id = "run", .role = "trainer", .host = "node7", .rdzv_backend = "c10d", .entry_point = "train"};
  event.worker =
      EventWorker{.rank = 5, .local_rank = 1, .role_rank = 5, .role_world_size = 8, .pid = 4711, .exit_code = -9};
  event.group_rank = 1;
  event.group_world_size = 2;
  event.round = 3;
  event.restarts = 2;
  event.run_time = 61'500ms;
  event.duration = 1500us;
  event.error = "line 1\nline 2 \"quoted\"";
  return event;
}

// What torchrun 2.11 writes into "metadata", and into the text of JSON below it.
const std::set<std::string> kTorchrunFields = {
    "run_id",         "global_rank",     "group_rank",       "worker_id",    "role",
    "hostname",       "state",           "total_run_time",   "rdzv_backend", "raw_error",
    "agent_restarts", "duration_ms",     "group_world_size", "entry_point",  "local_rank",
    "role_rank",      "role_world_size", "exit_code",        "worker_pid"};

struct Console {
  std::vector<std::string> lines;
  EventLog::Print print() {
    return [this](const std::string& line) { lines.push_back(line); };
  }
  FileThread files{print()};
};

std::string refusal(const std::string& destination) {
  return error_text<UsageError>([&] {
    Console console;
    EventLog(destination, {}, console.files);
  });
}

}  // namespace

TEST_CASE("an event is one line of JSON of one level with torchrun's name and fields, and a true time", "[events]") {
  const std::string line = event_line(failure());
  CHECK(line.find('\n') == line.size() - 1);
  const Json event = Json::parse(line);
  CHECK(event["name"] == "torchelastic.worker.status.FAILED");
  CHECK(event["source"] == "WORKER");
  CHECK(event["timestamp"] == 1'700'000'000'123);
  const Json& metadata = event["metadata"];
  for (const std::string& field : kTorchrunFields) {
    CAPTURE(field);
    CHECK(metadata.contains(field));
  }
  CHECK(metadata["global_rank"] == 5);
  CHECK(metadata["worker_id"] == "4711");
  CHECK(metadata["exit_code"] == -9);
  CHECK(metadata["agent_restarts"] == 2);
  CHECK(metadata["total_run_time"] == 61);
  CHECK(metadata["duration_ms"] == 1.5);
  CHECK(metadata["raw_error"] == "line 1\nline 2 \"quoted\"");
  for (const auto& [key, value] : metadata.items()) {  // no list, no object, no text of JSON
    CAPTURE(key);
    CHECK(value.is_primitive());
    CHECK((!value.is_string() || !Json::parse(value.get<std::string>(), nullptr, false).is_object()));
  }
}

TEST_CASE("an agent's event says nothing of a worker", "[events]") {
  const Json json = Json::parse(event_line({.state = "RENDEZVOUS"}));
  CHECK(json["source"] == "AGENT");
  CHECK(json["metadata"]["global_rank"].is_null());
  CHECK_FALSE(json["metadata"].contains("local_rank"));
}

TEST_CASE("bytes that are no text do not break an event's line", "[events]") {
  JobEvent event = failure();
  event.error = "\xff\xfe\n\x01";
  CHECK(Json::parse(event_line(event))["metadata"]["raw_error"] == "\xef\xbf\xbd\xef\xbf\xbd\n\x01");
}

TEST_CASE("events are appended to their file, each with one write", "[events]") {
  const TempFolder folder;
  folder.write("events", "earlier\n");
  Console console;
  EventLog log("file:" + (folder / "events").string(), console.print(), console.files);
  CHECK(log.on());
  log.write(failure());
  log.write(failure());
  REQUIRE(console.files.drain(20s));
  CHECK(test::read_file(folder / "events") == "earlier\n" + event_line(failure()) + event_line(failure()));
  CHECK(console.lines.empty());
}

TEST_CASE("events for the console go where ddprun's own lines go, and none for null", "[events]") {
  Console console;
  EventLog("console", console.print(), console.files).write(failure());
  CHECK(console.lines == std::vector<std::string>{event_line(failure())});
  EventLog null("null", console.print(), console.files);
  CHECK_FALSE(null.on());
  null.write(failure());
  CHECK(console.lines.size() == 1);
}

TEST_CASE("an event log that cannot be had is refused in a sentence before the job starts", "[events]") {
  const TempFolder folder;
  const std::string pipe = folder / "pipe";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(refusal("file:/nonsuch/events") ==
        "cannot open the event log /nonsuch/events: No such file or directory. Pass another file to "
        "--event-log-handler.");
  CHECK(refusal("file:" + pipe).find("this pipe has no reader") != std::string::npos);
  CHECK(refusal("file:").find("no file is named") != std::string::npos);
  CHECK(refusal("syslog").find("there is no such handler") != std::string::npos);
}

TEST_CASE("a full disk costs events and one complaint, not the job", "[events]") {
  Console console;
  EventLog log("file:/dev/full", console.print(), console.files);
  for (int i = 0; i < 3; ++i) log.write(failure());
  REQUIRE(console.files.drain(20s));
  CHECK(console.lines ==
        std::vector<std::string>{"an event could not be written to /dev/full: No space left on device. "
                                 "The job goes on; events may be missing"});
}

TEST_CASE("a job's end is one line of JSON", "[job_end]") {
  CHECK(to_json({}) == "{\"exit_code\":0,\"message\":\"\",\"first_failure\":null}\n");
  CHECK(to_json({.exit_code = 1,
                 .message = "the job failed: rank 3\n  \xff\n",
                 .first_failure = JobEnd::FirstFailure{3, 1, "node7", -9}}) ==
        "{\"exit_code\":1,\"message\":\"the job failed: rank 3\\n  \\ufffd\",\"first_failure\":{\"global_rank\":3,"
        "\"local_rank\":1,\"hostname\":\"node7\",\"exit_code\":-9}}\n");
}

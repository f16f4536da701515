#include "launcher/report/job_report.h"

#include <nlohmann/json.hpp>

#include "launcher/report/event_reader.h"
#include "launcher/report/report_text.h"
#include "rendezvous/base/spelling.h"
#include "tests/support/test.h"

namespace {

// "start_ms=1000,reason=lost": what an event says besides its state.
nlohmann::json fields(const std::string& text) {
  nlohmann::json out;
  for (const std::string& field : split(text, ','))
    out[field.substr(0, field.find('='))] = field.substr(field.find('=') + 1);
  return out;
}

// "waiting=16,stop=6": in seconds, without the kinds that took none.
std::string seconds_of(const TimeAccount& spent) {
  std::string out;
  for (const auto& one : rendezvous::kTimeKinds)
    if (const double seconds = std::chrono::duration<double>(spent[one.kind]).count(); seconds != 0)
      out += (out.empty() ? "" : ",") + std::string(one.name) + "=" + nlohmann::json(seconds).dump();
  return out;
}

// The events of one or several agents, in seconds since a job's start.
class Log {
 public:
  Log& event(double at, const char* source, const std::string& state, int round, nlohmann::json more = {}) {
    nlohmann::json metadata{{"run_id", run_id},         {"state", state},        {"round", round},
                            {"group_rank", group_rank}, {"group_world_size", 2}, {"duration_ms", nullptr},
                            {"raw_error", nullptr}};
    for (const auto& [key, value] : more.items()) metadata[key] = value;
    const nlohmann::json line{{"name", "torchelastic.worker.status." + state},
                              {"source", source},
                              {"timestamp", 1'700'000'000'000 + static_cast<std::int64_t>(at * 1000)},
                              {"metadata", metadata}};
    text += line.dump() + "\n";
    return *this;
  }
  Log& agent(double at, const std::string& state, int round, nlohmann::json more = {}) {
    return event(at, "AGENT", state, round, std::move(more));
  }
  Log& formed(double at, int round, double waited) {
    agent(at, "RENDEZVOUS", round, {{"duration_ms", waited * 1000}});
    return agent(at, "ASSIGN_WORKER_RANKS", round);
  }
  Log& worker(double at, const std::string& state, int round) { return event(at, "WORKER", state, round); }

  JobReport report() const {
    const EventFile file = read_events(text);
    REQUIRE(file.problems.empty());
    const auto out = report_of(file.events, run_id);
    REQUIRE(out);
    return *out;
  }

  std::string run_id = "job", text;
  int group_rank = 0;
};

Log two_rounds() {
  Log log;
  log.formed(10, 1, 10).worker(11, "START", 1);
  log.agent(111, "ROUND_ENDED", 1,
            fields("reason=restart 1 of 3,failure_class=crash,failed_rank=1,start_ms=1000,restore_ms=9000,"
                   "productive_ms=85000,save_ms=4000,lost_work_ms=2000,first_step=1,last_step=80,steps=80,"
                   "steps_ms=80000"));
  log.worker(111.5, "FAILED", 1).worker(114, "TERMINATED", 1);
  log.formed(120, 2, 6).worker(121, "START", 2);
  log.worker(159, "SUCCEEDED", 2);
  log.agent(160, "SUCCEEDED", 2,
            fields("start_ms=2000,restore_ms=5000,productive_ms=30000,first_step=61,last_step=90,steps=30,"
                   "steps_ms=30000"));
  return log;
}

}  // namespace

TEST_CASE("the time of a job's events goes to its kinds, and adds up to the wall time", "[report]") {
  const JobReport report = two_rounds().report();
  CHECK(report.starts == 1);
  CHECK(report.ended);
  CHECK(report.succeeded);
  CHECK(report.spent.total() == 160s);
  // Productive are 85 and 30 s, less the 20 steps that were done again; stopping took 3 s in each round.
  CHECK(seconds_of(report.spent) ==
        "productive=95.0,start=3.0,restore=14.0,save=4.0,lost_work=22.0,stop=6.0,waiting=16.0");
  REQUIRE(report.rounds.size() == 2);
  CHECK(report.rounds[0].failure_class == "crash");
  CHECK(report.rounds[0].failed_rank == 1);
  CHECK(report.rounds[0].lost == 22s + 3s + 6s + 7s);
  CHECK(report.rounds[1].spent.total() == 40s);
  CHECK(report.rounds[1].reason == "all workers succeeded");
}

TEST_CASE("two agents in one file tell of one job", "[report]") {
  Log log;
  log.formed(10, 1, 10);
  log.group_rank = 1;
  log.formed(10.2, 1, 4).worker(11, "START", 1);
  log.agent(50, "ROUND_ENDED", 1, fields("reason=lost,start_ms=30000,productive_ms=10000"));
  log.group_rank = 0;
  log.agent(50.1, "ROUND_ENDED", 1, fields("reason=lost,start_ms=5000,productive_ms=35000"));
  log.worker(52, "TERMINATED", 1).formed(60, 2, 8).agent(70, "SUCCEEDED", 2, {{"productive_ms", "10000"}});
  const JobReport report = log.report();
  CHECK(report.starts == 1);
  // The start is that of the lower group rank.
  CHECK(seconds_of(report.spent) == "productive=45.0,start=5.0,stop=2.0,waiting=18.0");
}

TEST_CASE("a job that was started again has two starts, and nothing between them is counted", "[report]") {
  Log log = two_rounds();
  log.formed(1000, 1, 5).worker(1001, "START", 1);
  log.agent(1050, "FAILED", 1,
            fields("raw_error=interrupted by SIGTERM,start_ms=1000,productive_ms=49000,first_step=81,last_step=129,"
                   "steps=49,steps_ms=49000"));
  const JobReport report = log.report();
  CHECK(report.starts == 2);
  CHECK_FALSE(report.succeeded);
  CHECK(report.error == "interrupted by SIGTERM");
  CHECK(report.rounds.back().reason == "interrupted by SIGTERM");
  CHECK(report.spent.total() == 160s + 55s);
  CHECK(report.spent[TimeKind::lost_work] == 22s + 10s);  // steps 81 to 90
}

TEST_CASE("a job whose end is not written, and a file without times, are accounted as far as they go", "[report]") {
  Log log;
  log.formed(10, 1, 10).worker(12, "START", 1).agent(100, "METRIC", 1);
  const JobReport report = log.report();
  CHECK_FALSE(report.ended);
  CHECK(seconds_of(report.spent) == "productive=88.0,start=2.0,waiting=10.0");
  CHECK(to_text(report).find("its end is not in the file") != std::string::npos);
}

TEST_CASE("the report is printed as tables and as JSON", "[report]") {
  const JobReport report = two_rounds().report();
  CHECK(has(to_text(report), "  crash: rank 1 failed\n"));
  CHECK(to_text(report).find("productive         95.0 s  59.38 %") != std::string::npos);
  const auto json = nlohmann::json::parse(to_json(report));
  CHECK(json["total_s"] == 160);
  CHECK(json["spent_s"]["lost_work"] == 22);
  CHECK(json["rounds"][0]["lost_s"] == 38);
}

TEST_CASE("the report names the newest snapshot, from which a new start goes on, where one is known", "[report]") {
  CHECK(to_text(two_rounds().report()).find("newest snapshot") == std::string::npos);
  CHECK_FALSE(nlohmann::json::parse(to_json(two_rounds().report())).contains("snapshot_step"));
  Log log;
  log.formed(10, 1, 10).worker(11, "START", 1).agent(60, "PROGRESS", 1, fields("step=50,snapshot_step=40"));
  log.agent(111, "ROUND_ENDED", 1, fields("reason=restart 1 of 3,productive_ms=100000,snapshot_step=80"));
  log.formed(120, 2, 6).worker(121, "START", 2).agent(130, "PROGRESS", 2, fields("step=90,snapshot_step=80"));
  log.agent(140, "FAILED", 2, fields("productive_ms=10000"));
  JobReport report = log.report();
  CHECK(to_text(report).find(
            "\nnewest snapshot: step 80, reported in round 1; a program that loads it goes on from there\n\n") !=
        std::string::npos);
  report.snapshot_file = "/d/a\nb.pt";
  CHECK(to_text(report).find("newest snapshot: /d/a\\x0ab.pt, step 80") != std::string::npos);
  const auto json = nlohmann::json::parse(to_json(report));
  CHECK(json["snapshot_step"] == 80);
  CHECK(json["snapshot_round"] == 1);
  CHECK(json["snapshot_file"] == "/d/a\nb.pt");
  report.succeeded = true;
  CHECK(to_text(report).find("reported in round 1\n") != std::string::npos);
}

TEST_CASE("names in the events cannot look like lines of the report", "[report]") {
  JobReport report = two_rounds().report();
  report.run_id = report.error = report.rounds[1].reason = "x\nstart\x1b[2J \xc2\x9b";
  report.succeeded = false;
  const std::string text = to_text(report);
  CHECK(text == visible_lines(text));
  CHECK(text.find("\nstart\\") == std::string::npos);
  const std::string as_json = to_json(report);
  CHECK(as_json == visible_lines(as_json));  // print_text() leaves it JSON
  CHECK(nlohmann::json::parse(as_json)["run_id"] == report.run_id);
}

TEST_CASE("a line that is no event is named by its number", "[report]") {
  const std::string good = two_rounds().text;
  const auto problems = [&](const std::string& line) { return read_events(good + line + "\n").problems; };
  const int next = static_cast<int>(std::count(good.begin(), good.end(), '\n')) + 1;
  const std::string at = "line " + std::to_string(next) + " is no event of ddprun: ";
  CHECK(problems("{").front() == at + "it is not JSON");
  CHECK(problems("3").front() == at + "it is no JSON object");
  CHECK(problems("{}").front() == at + "it has no 'metadata'");
  CHECK(problems(R"({"metadata":{},"timestamp":-1})").front() ==
        at + "its 'timestamp' is no number from 0 to 4398046511104");
  CHECK(problems(R"({"metadata":{"run_id":"a","state":"X"},"timestamp":1,"source":"AGENT"})").front() ==
        at + "it has no 'round'");
  CHECK(problems(R"({"metadata":{"run_id":"a","state":"X","round":1,"start_ms":"-3"},"timestamp":1,"source":"AGENT"})")
            .front() == at + "its 'start_ms' is no time in milliseconds");
  const EventFile torn = read_events(good + "{\"name\": \"torch");
  CHECK(torn.problems.empty());
  CHECK(torn.torn);
}

// Rounds whose times are anything, in any order, of agents with clocks that differ.
TEST_CASE("whatever the events say, the parts add up to the wall time, and none is negative", "[report]") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    INFO("seed " << seed);
    std::mt19937_64 random(seed);
    Log log;
    double at = 0;
    int round = 0;
    for (int i = 0; i < 40; ++i) {
      at += static_cast<double>(random() % 20'000) / 1000;
      log.group_rank = static_cast<int>(random() % 3);
      nlohmann::json times = nlohmann::json::object();
      for (const auto& one : rendezvous::kTimeKinds)
        if (random() % 2) times[one.name + std::string("_ms")] = std::to_string(random() % 60'000);
      for (const char* name : {"first_step", "last_step", "steps"})
        if (random() % 2) times[name] = std::to_string(random() % 50);
      if (random() % 2) times["steps_ms"] = std::to_string(random() % 50'000);
      const double skewed = std::max(0.0, at - static_cast<double>(random() % 3000) / 1000);
      const std::uint64_t kind = random() % 6;
      if (kind == 0)
        log.formed(skewed, ++round, static_cast<double>(random() % 100));
      else if (kind == 1)
        log.agent(skewed, "ROUND_ENDED", round, times);
      else if (kind == 2)
        log.agent(skewed, random() % 2 ? "FAILED" : "SUCCEEDED", round, times);
      else if (kind == 3)
        log.formed(skewed, static_cast<int>(1 + random() % 4), 1);
      else
        log.worker(skewed, random() % 2 ? "START" : "TERMINATED", round);
    }
    const EventFile file = read_events(log.text);
    REQUIRE(file.problems.empty());
    const auto report = report_of(file.events, "job");
    if (!report) continue;
    Duration rounds{};
    for (const auto& one : rendezvous::kTimeKinds) CHECK(report->spent[one.kind] >= 0s);
    for (const ReportedRound& one : report->rounds) rounds += one.spent.total();
    CHECK(rounds <= report->spent.total());
    if (report->starts == 1) CHECK(report->spent.total() == report->last - report->began);
  }
}

TEST_CASE("the report of a failed job says what ran, who failed and where it hung", "[report]") {
  Log log;
  log.agent(0, "RENDEZVOUS", 1, {{"command", "train.py --lr 0.1"}, {"hostname", "n0"}, {"duration_ms", 0.0}});
  log.event(1, "WORKER", "START", 1, {{"global_rank", 0}}).event(1, "WORKER", "START", 1, {{"global_rank", 3}});
  log.agent(9, "STRAGGLER", 1, {{"slow_rank", "3"}, {"phase", "compute"}, {"ratio", "2.40"}});
  log.event(10, "WORKER", "FAILED", 1,
            {{"global_rank", 3}, {"hostname", "n1"}, {"raw_error", "was killed by SIGKILL"}});
  log.agent(10, "ROUND_ENDED", 1,
            {{"reason", "restart 1 of 1"},
             {"failure_class", "crash"},
             {"failed_rank", "3"},
             {"start_ms", "4000"},
             {"failure_text", "rank 3 on n1 was killed by SIGKILL"}});
  log.formed(11, 2, 1).event(12, "WORKER", "START", 2, {{"global_rank", 3}});
  log.agent(19, "STACKS", 2, {{"rank", "2"}, {"stacks", "all_reduce (model.py:212)\n"}});
  log.agent(19, "PROGRESS", 2, fields("step=90,total_steps=200"));
  log.agent(20, "FAILED", 2,
            {{"raw_error", "rank 2 hung: all restarts are used up"},
             {"failure_class", "hang"},
             {"failed_rank", "2"},
             {"failure_text", "rank 2 hung in model.py:212"}});
  log.agent(21, "REPORT", 2, {{"text", "ddprun: the job failed: rank 2 hung\n"}});
  const JobReport report = log.report();
  CHECK(report.ranks == 4);
  const std::string text = to_text(report);
  CHECK(has(text, "train.py --lr 0.1, on n0, 4 ranks, from "));
  CHECK(has(text, "ddprun: the job failed: rank 2 hung\n\nrank 2 was here:\nall_reduce (model.py:212)\n"));
  const auto page = nlohmann::json::parse(to_page_data(report));
  CHECK(page["status"]["condition"]["text"] == "failed: rank 2 hung: all restarts are used up");
  CHECK(page["status"]["total_steps"] == 200);
  CHECK(page["status"]["report"]["command"] == "train.py --lr 0.1");
  CHECK_THAT(page["status"]["report"]["failure"].get<std::string>(), EndsWith("all_reduce (model.py:212)\n"));
  CHECK(page["rounds"][0]["story"] == "rank 3 on n1 was killed by SIGKILL");
  CHECK(page["rounds"][0]["spent"]["start"] == 4.0);
  CHECK(page["rounds"][1]["story"] == "rank 2 hung in model.py:212");
  std::string marks;
  for (const auto& mark : page["marks"]) marks += mark[1].get<std::string>() + ": " + mark[2].get<std::string>() + "\n";
  CHECK(marks ==
        "straggler: rank 3 computes 2.40x slower than the median\n"
        "failure: rank 3 on n1 was killed by SIGKILL\n"
        "restart: round 2\n"
        "failure: rank 2 hung in model.py:212\n");
}

TEST_CASE("events of an older ddprun make a report without what they do not tell", "[report]") {
  Log log;
  log.formed(0, 1, 0).worker(1, "START", 1).agent(5, "SUCCEEDED", 1);
  const JobReport report = log.report();
  CHECK_FALSE(has(to_text(report), " on "));
  const auto page = nlohmann::json::parse(to_page_data(report));
  CHECK(page["status"]["condition"]["text"] == "ended well after 5.0 s");
  CHECK(page["status"]["report"]["failure"] == "");
  CHECK(page["rounds"][0]["story"] == "all workers succeeded");
}

TEST_CASE("a report of thousands of rounds is a page that can be sent, and no cause and no second is lost",
          "[report]") {
  Log log;
  for (int round = 1; round <= 5000; ++round) {
    log.formed(10 * round, round, 0);
    log.agent(10 * round + 9, "ROUND_ENDED", round,
              {{"reason", "restart"}, {"failure_class", round % 2 == 0 ? "hang" : "crash"}, {"failed_rank", "1"}});
  }
  const JobReport report = log.report();
  const std::string text = to_page_data(report);
  CHECK(text.size() < 150'000);
  const auto rounds = nlohmann::json::parse(text)["rounds"];
  CHECK(rounds.size() <= 200);
  int next = 1, crashes = 0;
  double seconds = 0;
  for (const auto& round : rounds) {
    CHECK(round["first"] == next);
    next = round["last"].get<int>() + 1;
    crashes += round["causes"].value("crash", 0);
    for (const auto& [kind, spent] : round["spent"].items()) seconds += spent.get<double>();
  }
  CHECK(next == 5001);
  CHECK(crashes == 2500);
  CHECK(seconds == Approx(std::chrono::duration<double>(report.spent.total()).count()));
  CHECK(rounds.back()["story"] == "rank 1 failed");
}

TEST_CASE("a report is of the job's last start, and what an earlier one has told of a hang is not its failure",
          "[report]") {
  Log log;
  const auto starts = [&](double at, const std::string& host, int group_rank) {
    log.group_rank = group_rank;
    log.agent(at, "RENDEZVOUS", 1, {{"command", "ddprun on " + host}, {"hostname", host}, {"duration_ms", 0.0}});
    log.event(at + 1, "WORKER", "START", 1, {{"global_rank", group_rank}, {"role_world_size", 4}});
  };
  starts(0, "n0", 0);
  starts(0.5, "n1", 1);  // its node's ddprun is no new start
  log.group_rank = 0;
  log.agent(8, "STACKS", 1, {{"rank", "1"}, {"stacks", "spin_forever\n"}});
  log.agent(9, "FAILED", 1, {{"raw_error", "rank 1 hung: all used up"}, {"failure_class", "hang"}});
  CHECK(log.report().command == "ddprun on n0");
  CHECK(log.report().ranks == 4);
  CHECK(has(to_text(log.report()), "spin_forever"));
  starts(20, "n0", 0);
  CHECK_FALSE(has(to_text(log.report()), "spin_forever"));  // it runs
  log.group_rank = 0;
  log.agent(29, "FAILED", 1, {{"raw_error", "interrupted by SIGTERM"}, {"stopped", "true"}});
  CHECK(has(to_text(log.report()), "stopped: interrupted by SIGTERM"));
  const auto page = nlohmann::json::parse(to_page_data(log.report()));
  CHECK(page["status"]["condition"]["text"] == "stopped: interrupted by SIGTERM");
  CHECK(page["status"]["state"] == "stopped");
}

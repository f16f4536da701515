#include "launcher/running/job_view.h"

#include "launcher/config/command_names.h"
#include "launcher/jobs/job_words.h"
#include "launcher/jobs/recorded_status.h"
#include "tests/support/test.h"

using nlohmann::json;

namespace {

json event(const char* source, const char* state, MilliSeconds when, json more = json::object()) {
  more.update({{"state", state}, {"round", 1}, {"agent_restarts", 0}, {"group_world_size", 2}});
  return {{"source", source}, {"timestamp", when}, {"metadata", more}};
}

JobFacts facts_with(const json& status, std::optional<PlaceState> scheduler = {}) {
  return {
      .id = "digits-abc123", .place = scheduler ? Place::slurm : Place::here, .status = status, .scheduler = scheduler};
}

// `all`, but for these values.
json with(json all, const char* values) {
  all.update(json::parse(values));
  return all;
}

std::string state_with(const char* own, PlaceState::Phase phase) {
  return state_of(facts_with(own ? json{{"state", own}} : json(), PlaceState{.phase = phase}));
}

}  // namespace

TEST_CASE("a job's status follows its events, and counts the time in which workers run", "[job_status]") {
  RecordedStatus status({}, 1000);
  CHECK(status.to_json(1000)["state"] == "waiting");
  status.on_event(event("WORKER", "START", 2000));
  status.on_event(event("WORKER", "START", 2001));
  CHECK(status.to_json(3000)["state"] == "running");
  CHECK(status.to_json(3000)["training_seconds"] == 1.0);
  status.on_event(event("AGENT", "METRIC", 3000,
                        {{"metric", "loss"}, {"value", "0.5"}, {"min", "0.25"}, {"max", "2"}, {"count", "7"}}));
  status.on_event(event("WORKER", "FAILED", 4000));
  status.on_event(event("WORKER", "TERMINATED", 5000));
  status.on_event(json("no event"));
  status.on_end(1, {{"message", "rank 1 failed"}, {"first_failure", {{"global_rank", 1}}}}, 6000);
  const json end = status.to_json(9000);
  CHECK(end == with(end, R"({"state": "failed", "exit_code": 1, "reason": "rank 1 failed", "seconds": 5,
                             "first_failure": {"global_rank": 1}, "training_seconds": 3, "billable_seconds": 10})"));
  CHECK(status.result().dump() == R"({"metrics":{"loss":{"count":7,"last":0.5,"max":2.0,"min":0.25}}})");
}

TEST_CASE("a further start of a job adds to what earlier ones took", "[job_status]") {
  RecordedStatus first({}, 0);
  first.on_event(event("WORKER", "START", 0));
  first.on_event(event("WORKER", "TERMINATED", 3000));
  first.on_end(75, {}, 4000);
  CHECK(first.to_json(4000)["state"] == "preempted");
  RecordedStatus second(first.to_json(4000), 10000);
  second.on_event(event("WORKER", "START", 11000));
  second.on_event(event("WORKER", "SUCCEEDED", 12000));
  second.on_end(0, {{"message", ""}}, 12000);
  const json end = second.to_json(12000);
  CHECK(end == with(end, R"({"starts": 2, "training_seconds": 4, "billable_seconds": 12, "created": 0,
                             "state": "succeeded"})"));
}

TEST_CASE("the scheduler knows whether a job is started again, the record how it ended", "[job_view]") {
  using Phase = PlaceState::Phase;
  CHECK(state_with(nullptr, Phase::queued) == "queued");
  CHECK(state_with(nullptr, Phase::running) == "running");
  CHECK(state_with("waiting", Phase::running) == "waiting");
  CHECK(state_with("preempted", Phase::queued) == "queued");
  CHECK(state_with("preempted", Phase::running) == "running");  // its script puts it back into the queue
  CHECK(state_with("running", Phase::failed) == "failed");      // the node died
  CHECK(state_with("succeeded", Phase::succeeded) == "succeeded");
  CHECK(state_with("succeeded", Phase::gone) == "succeeded");
  CHECK(state_with("running", Phase::gone) == "unknown");
}

TEST_CASE("a job whose ddprun run was killed has failed, and one that was cancelled has been stopped", "[job_view]") {
  JobFacts facts = facts_with({{"state", "running"}});
  CHECK(state_of(facts) == "running");
  facts.runner_is_gone = true;
  CHECK(state_of(facts) == "failed");
  CHECK(status_text(facts).find("reason:     its ddprun run was killed.") != std::string::npos);
  facts = facts_with({{"state", "preempted"}, {"exit_code", 75}});
  CHECK(state_of(facts) == "preempted");
  facts.cancelled = true;
  CHECK(state_of(facts) == "stopped");
  CHECK(exit_code_of(facts) == 75);
  CHECK(state_of(facts_with(json())) == "waiting");
}

TEST_CASE("a job that the scheduler may not have is unclear, until its record says more", "[job_view]") {
  JobFacts facts = facts_with(json());
  facts.place = Place::slurm;
  facts.submitted = {{"place", "slurm"}};
  CHECK(state_of(facts) == "unclear");
  CHECK_FALSE(can_ask(facts));
  CHECK_THAT(status_text(facts), Contains("squeue --me"));
  facts.submitted["unclear"] = "Slurm may have it: what to do.";
  CHECK_THAT(status_text(facts), Contains("Slurm may have it: what to do."));
  facts.status = {{"state", "running"}};
  CHECK(state_of(facts) == "running");
  facts.submitted = {{"place", "slurm"}, {"place_id", "17"}};
  CHECK(can_ask(facts));

  JobFacts pods = facts_with(json());
  pods.place = Place::kubernetes;
  pods.submitted = {{"unclear", "some of it may be there."}, {"kubernetes", {{"name", "digits-abc123"}}}};
  pods.scheduler = PlaceState{};
  CHECK(can_ask(pods));
  CHECK(state_of(pods) == "unclear");
  pods.scheduler->phase = PlaceState::Phase::running;
  CHECK(state_of(pods) == "running");
  pods.scheduler->phase = PlaceState::Phase::gone;
  pods.cancelled = true;
  CHECK(state_of(pods) == "stopped");
}

TEST_CASE("a record that cannot be read is a row of its own", "[job_view]") {
  JobFacts facts = facts_with(json());
  facts.problem = "cannot read it.";
  CHECK(list_text({facts}) == "JOB            STATE       STARTED  EXIT CODE\ndigits-abc123  unreadable           -\n");
  CHECK_THAT(status_text(facts), Contains("cannot read it."));
}

TEST_CASE("what a record says is of the kinds that are read of it, or nothing", "[job_record]") {
  const TempFolder folder;
  const JobRecord record = make_record(folder.path(), "digits");
  const auto with_file = [&](const std::string& text) {
    record.write_text("submitted.json", text);
    record.write_text("status.json", text);
    CHECK(all_records(folder.path()).size() == 1);
    return record.problem();
  };
  CHECK(with_file(R"({"place": "slurm", "at": 5, "program": ["a"], "more": [1]})").empty());
  CHECK(record.submitted()["at"] == 5);
  CHECK_THAT(with_file("{\"place\": "), Contains("it is no JSON object") && Contains(record.id()));
  CHECK(record.submitted().is_null());
  CHECK_THAT(with_file(""), Contains("it is empty"));
  for (const char* wrong :
       {"[]", "7", R"({"place": 7})", R"({"place": "moon"})", R"({"at": "x"})", R"({"program": [1]})",
        R"({"place_id": 17})", R"({"kubernetes": []})", R"({"kubernetes": {"name": 1}})", R"({"overrides": {}})"}) {
    INFO(wrong);
    CHECK_FALSE(with_file(wrong).empty());
    CHECK(record.submitted().is_null());
  }
  for (const char* wrong : {R"({"host": 1})", R"({"pid": "1"})", R"({"pid_start": null})"}) {
    with_file(wrong);
    CHECK(record.status().is_null());
  }
  fs::remove(record.path("submitted.json"));
  fs::create_symlink("submitted.json", record.path("submitted.json"));
  CHECK(all_records(folder.path()).size() == 1);
  CHECK_THAT(record.problem(), Contains("Too many levels of symbolic links"));
}

TEST_CASE("the list of jobs is a table, and describe --json has no numbers of processes", "[job_view]") {
  CHECK(list_text({facts_with({{"state", "succeeded"}, {"exit_code", 0}})}) ==
        "JOB                   STATE      STARTED  EXIT CODE\nhere://digits-abc123  succeeded           0\n");
  const json all = describe_json(facts_with({{"state", "running"}, {"pid", 7}}));
  CHECK(all["handle"] == "here://digits-abc123");
  CHECK_FALSE(all.contains("pid"));
}

TEST_CASE("the list has running jobs first, then queued ones, then ended ones, of each kind the newest first",
          "[job_view]") {
  const auto job = [](const std::string& id, const char* state, MilliSeconds started) {
    return JobFacts{.id = id, .status = {{"state", state}, {"started", started}}};
  };
  JobFacts queued{.id = "queued", .place = Place::slurm, .submitted = {{"at", 40}, {"place_id", "7"}}};
  queued.scheduler = PlaceState{.phase = PlaceState::Phase::queued};
  JobFacts forgotten = queued, damaged;
  forgotten.id = "forgotten";
  forgotten.scheduler = PlaceState{};
  damaged.id = "damaged";
  damaged.problem = "cannot read it.";
  const JobFacts without_file{.id = "without file", .status = {{"started", 5}}, .has_record = false};
  std::vector<JobFacts> jobs{job("failed", "failed", 90),   damaged,   job("succeeded", "succeeded", 30),
                             job("runs", "running", 10),    forgotten, job("waits for nodes", "waiting", 20),
                             job("stopped", "stopped", 95), queued,    without_file};
  sort_for_list(jobs);
  std::vector<std::string> ids;
  for (const JobFacts& one : jobs) ids.push_back(one.id);
  CHECK(ids == std::vector<std::string>{"waits for nodes", "runs", "without file", "queued", "stopped", "failed",
                                        "forgotten", "succeeded", "damaged"});
  CHECK(std::count_if(jobs.begin(), jobs.end(), is_current) == 4);
}

TEST_CASE("a job is found by its handle, id, name, or their beginning", "[job_record]") {
  const TempFolder folder;
  const JobRecord a = make_record(folder.path(), "digits"), b = make_record(folder.path(), "mnist");
  for (const JobRecord* record : {&a, &b}) record->write("submitted.json", {{"place", "here"}});
  const auto found = [&](const std::string& words) {
    const auto record = find_record(folder.path(), words);
    return std::holds_alternative<JobRecord>(record) ? std::get<JobRecord>(record).id() : std::get<std::string>(record);
  };
  CHECK(found(a.id()) == a.id());
  CHECK(found("here://" + a.id()) == a.id());
  CHECK(found("digits") == a.id());
  CHECK(found(b.id().substr(0, 8)) == b.id());
  CHECK(found("nosuch").starts_with("no job is called nosuch; there are "));
  const JobRecord again = make_record(folder.path(), "digits");
  again.write("submitted.json", {{"place", "here"}});
  CHECK(found("digits").starts_with("several jobs are called digits: "));
  CHECK(std::get<std::string>(find_record(folder / "none", "x")) == "no job has been run or submitted here.");
}

TEST_CASE("the value of --watch may be left out, and a JOB behind it is none", "[job_words]") {
  const auto read = [](std::vector<std::string> words) {
    words.insert(words.begin(), "status");
    return read_job_words(words);
  };
  CHECK_FALSE(read({"digits"}).watch);
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"-w", "digits"}, {"digits", "-w"}, {"digits", "--watch"}, {"--watch=1", "digits"}}) {
    CHECK(read(words).watch == 1);
    CHECK(read(words).handle == "digits");
    CHECK(read(words).mistake.empty());
  }
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"-w", "0.5"}, {"--watch", "0.5"}, {"--watch=0.5"}, {"-w0.5"}}) {
    CHECK(read(words).watch == 0.5);
    CHECK(read(words).handle.empty());
  }
  CHECK(read({"4711", "-w", "2"}).handle == "4711");
  CHECK(read({"-w", "4711"}).mistake ==
        "--watch is '4711'; it takes seconds, from 0.1 to 3600. A job's process id goes before it.");
  for (const std::string wrong : {"x", "0", "-1", "nan", "inf", "1s", "3601"})
    CHECK_THAT(read({"--watch=" + wrong}).mistake, StartsWith("--watch is '" + wrong + "'; it takes seconds"));
  CHECK(read({"--json", "-w"}).mistake == "it takes --watch or --json, not both.");
  CHECK_THAT(read_job_words({"top", "--watch"}).mistake, StartsWith("there is no option --watch"));
}

TEST_CASE("the words of the commands about jobs", "[job_words]") {
  const JobWords submit = read_job_words(
      {"submit", "--to", "slurm", "job.toml", "--set", "a=1", "--set=b=2", "--wait", "--", "-x", "--set"});
  CHECK(submit.mistake.empty());
  CHECK(submit.to == Place::slurm);
  CHECK(submit.file == "job.toml");
  CHECK(submit.overrides == std::vector<std::string>{"a=1", "b=2"});
  CHECK(submit.arguments == std::vector<std::string>{"-x", "--set"});
  CHECK(submit.wait);
  CHECK(read_job_words({"log", "-f", "x"}).follow);
  CHECK(read_job_words({"log", "x", "--rank", "3", "--rdzv-endpoint=n1"}).rank == 3);
  CHECK_FALSE(read_job_words({"log", "x"}).rank);
  for (const std::string wrong : {"x", "-1", "3x", "99999999999"})
    CHECK(read_job_words({"log", "--rank=" + wrong}).mistake ==
          "--rank is '" + wrong + "'; it takes the number of a rank, such as 0.");
  CHECK(has(read_job_words({"log", "x", "--rdzv-endpoint=n1"}).mistake, "it takes --rank with --rdzv-endpoint: "));
  CHECK(read_job_words({"list", "--rdzv-backend", "etcd", "--rdzv_endpoint=e1,e2", "--rdzv-conf=user=u"}).access ==
        std::vector<std::string>{"--rdzv-endpoint=e1,e2", "--rdzv-backend=etcd", "--rdzv-conf=user=u"});
  CHECK(has(read_job_words({"list", "--rdzv-backend=etcd"}).mistake, "it takes --rdzv-endpoint with --rdzv-backend"));
  CHECK_FALSE(has(read_job_words({"list", "--help"}).answer, "--token-file"));
  CHECK(read_job_words({"status", "x", "--rdzv-backend=etcd", "--rdzv-endpoint=e1", "--token-file=t"}).access.size() ==
        3);
  CHECK(read_job_words({"status"}).handle.empty());
  CHECK(read_job_words({"run"}).mistake == "it takes the job's file: ddprun run job.toml.");
  CHECK(read_job_words({"run", "job.toml", "--max-restarts", "5"}).mistake ==
        "the option --max-restarts is a key of the job's file here: --set max-restarts=VALUE.");
  CHECK(read_job_words({"run", "job.toml", "--token-file", "t"}).mistake ==
        "the option --token-file is a key of the job's file here: --set token-file=VALUE.");
  CHECK(read_job_words({"run", "--record", "r", "--token-file", "t"}).token_file == "t");
  CHECK(read_job_words({"run", "job.toml", "3"}).mistake ==
        "'3' is one word too many: arguments of the program come behind --.");
  CHECK(read_job_words({"submit", "job.toml", "--to", "slurn"}).mistake ==
        "--to is 'slurn'; it takes here, ssh, slurm or k8s. Did you mean 'slurm'?");
  CHECK(read_job_words({"status", "--bogus"}).mistake ==
        "there is no option --bogus; ddprun status --help lists them.");
  CHECK(read_job_words({"run", "--help"}).answer.find("To run a program of that name: ddprun ./run") !=
        std::string::npos);
  CHECK_FALSE(is_job_command("train"));
}

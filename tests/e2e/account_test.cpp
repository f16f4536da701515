// Where ddprun says that a job's time went, compared with what the job itself has noted.
#include <nlohmann/json.hpp>

#include "tests/e2e/hang_job.h"
#include "tests/e2e/programs.h"
#include "tests/support/test.h"

using Json = nlohmann::json;

namespace {

constexpr auto kJobLimit = 300s;

struct Entry {
  double at = 0;
  std::string what;
  int number = 0;
};

std::vector<Entry> diary(const TempFolder& folder) {
  std::vector<Entry> out;
  for (const std::string& line : lines_of(read_file(folder / "diary"))) {
    const Json entry = Json::parse(line);
    out.push_back({entry[0], entry[1], entry[2]});
  }
  std::stable_sort(out.begin(), out.end(), [](const Entry& a, const Entry& b) { return a.at < b.at; });
  return out;
}

// The diary's own sums, in seconds, by ddprun's words. A step that is done again later counts only then; what is begun
// and not completed before a failure is lost.
class Sums {
 public:
  std::map<std::string, double> of(const std::vector<Entry>& entries) {
    for (const Entry& entry : entries) add(entry);
    for (const auto& [step, time] : last_time_) sums_["productive"] += time;
    return sums_;
  }

 private:
  void add(const Entry& entry) {
    const double passed = entry.at - at_;
    if (entry.what == "attached")
      in_round_ = true;
    else if (!in_round_)
      return void(note_late(entry));
    else if (entry.what == "step")
      add_step(entry.number, step_ + passed);
    else if (doing_ == "restore" || doing_ == "save")
      sums_[doing_] += passed;
    else if (doing_ == "evaluate")
      sums_["productive"] += passed;
    else
      step_ += passed;
    if (entry.what == "failed") failed_at_ = entry.at, sums_["lost_work"] += std::exchange(step_, 0);
    at_ = entry.at;
    if (entry.what == "attached")
      doing_ = "restore";
    else if (entry.what == "save" || entry.what == "evaluate")
      doing_ = entry.what;
    else
      doing_ = "train";
    if (entry.what == "attached") step_ = 0;
    if (entry.what == "failed" || entry.what == "asked" || entry.what == "finished") in_round_ = false;
  }

  // The other rank waits from its last report until it is told to leave: if that takes long the job hung.
  void note_late(const Entry& entry) {
    if (entry.what == "left" && entry.at - failed_at_ > 1) sums_["hang"] += entry.at - failed_at_;
  }

  void add_step(int step, double took) {
    if (const auto before = last_time_.find(step); before != last_time_.end()) sums_["lost_work"] += before->second;
    last_time_[step] = took;
    step_ = 0;
  }

  std::map<std::string, double> sums_;
  std::map<int, double> last_time_;  // by step: of the last time it was done
  std::string doing_;
  double at_ = 0, step_ = 0, failed_at_ = 0;
  bool in_round_ = false;
};

Json report_of(const std::string& events) {
  const Ended printed = run(job_of({"report", "--json", events}), kLimit);
  REQUIRE(printed == exited(0));
  return Json::parse(printed.out);
}

// The coordinator's own account, as far as its next start goes on with it.
void check_ledger(const std::string& file, const Json& report) {
  const Json account = Json::parse(read_file(file))["ledger"]["account"];
  const double most = report["total_s"].get<double>() / 100;
  double total = 0;
  for (const auto& [kind, microseconds] : account["spent_us"].items()) {
    const double seconds = microseconds.get<double>() / 1e6;
    INFO(kind << ": the ledger says " << seconds << " s, the report " << report["spent_s"][kind]);
    CHECK(std::abs(seconds - report["spent_s"][kind].get<double>()) <= most);
    total += seconds;
  }
  CHECK(account["rounds"] == report["rounds"].size());
  CHECK(std::abs(total - report["total_s"].get<double>()) <= most);
}

}  // namespace

TEST_CASE("a job of five faults: its account adds up, and is its diary's to one percent", "[account]") {
  const TempFolder folder;
  const std::string events = folder / "events.jsonl";
  const std::string here = source_folder() + "/tests/e2e/account_worker.py";
  const std::vector<std::string> job = job_of(
      {"--nproc-per-node=2", "--rdzv-id=five-faults", "--state-dir=" + (folder / "state").string(), "--max-restarts=9",
       "--hang-timeout=compute=2s,wait=2s", "--stop-grace=5", "--event-log-handler=file:" + events,
       "--log-dir=" + (folder / "logs").string(), here, source_folder() + "/rendezvous/channel", folder.path(), "160"});
  const CommandOptions options{.env = {{"PYTHONDONTWRITEBYTECODE", "1"}}};
  const Ended preempted = run(job, kJobLimit, options);
  REQUIRE(preempted == exited(75));
  check_ledger(folder / "state" / "five-faults.ledger.json", report_of(events));
  REQUIRE(run(job, kJobLimit, options) == exited(0));

  const Json report = report_of(events);
  INFO(run(job_of({"report", events}), kLimit).out);
  CHECK(report["starts"] == 2);
  CHECK(report["ended"] == true);
  CHECK(report["succeeded"] == true);
  REQUIRE(report["rounds"].size() == 5);
  CHECK(report["rounds"][0]["failure_class"] == "crash");
  CHECK(report["rounds"][1]["failure_class"] == "hang");
  CHECK(report["rounds"][2]["failure_class"] == "error");

  const double total = report["total_s"];
  double parts = 0;
  for (const auto& [kind, seconds] : report["spent_s"].items()) parts += seconds.get<double>();
  CHECK(parts == Approx(total));
  std::map<std::string, double> sums = Sums().of(diary(folder));
  double rest = total;
  for (const char* kind : {"productive", "restore", "save", "lost_work", "hang"}) {
    INFO(kind << ": the diary says " << sums[kind] << " s, the report " << report["spent_s"][kind] << " s of "
              << total);
    CHECK(std::abs(report["spent_s"][kind].get<double>() - sums[kind]) <= total / 100);
    rest -= sums[kind];
  }
  const double others = report["spent_s"]["start"].get<double>() + report["spent_s"]["stop"].get<double>() +
                        report["spent_s"]["waiting"].get<double>();
  INFO("start, stop and waiting: " << others << " s, by the diary " << rest << " s of " << total);
  CHECK(std::abs(others - rest) <= total / 100);
}

TEST_CASE("a job that loses its coordinator's node is accounted by those that are left", "[account]") {
  const TempFolder folder;
  const std::string worker =
      folder.write("worker.py",
                   "import os, sys, time\n"
                   "import worker_channel as channel\n"
                   "resumed, rank = os.path.exists('resumed'), os.environ['RANK']\n"
                   "channel.attach()\n"
                   "channel.phase(channel.TRAINING)\n"
                   "for step in range(41 if resumed else 1, 101):\n"
                   "    time.sleep(0.02)\n"
                   "    channel.step(step)\n"
                   "    if channel.request(): sys.exit(0)\n"
                   "    if step == 60 and not resumed: open('at60.' + rank, 'w').close()\n"
                   "    while step == 80 and not resumed and not channel.request(): time.sleep(0.01)\n"
                   "channel.phase(channel.FINISHING)\n");
  const std::string events = folder / "events.jsonl";
  const auto began = std::chrono::steady_clock::now();
  ThreeRanks job(3, {"--nnodes=2:3", "--rdzv-id=three", "--event-log-handler=file:" + events}, {worker},
                 {{"PYTHONPATH", source_folder() + "/rendezvous/channel"}, {"PYTHONDONTWRITEBYTECODE", "1"}});
  const auto all_at_60 = [&] {
    for (const char* rank : {"0", "1", "2"})
      if (!fs::exists(job.stuck.folder() / ("at60." + std::string(rank)))) return false;
    return true;
  };
  REQUIRE(eventually(all_at_60, kLimit));
  job.stuck.write("resumed");
  for (const Process& process : job.agents[0]->processes()) kill(process.pid, SIGKILL);
  for (const std::size_t node : {1u, 2u}) REQUIRE(job.agents[node]->wait_exit(kLimit) == exited(0));
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - began;

  const Json report = report_of(events);
  INFO(report.dump(2));
  CHECK(report["starts"] == 1);
  REQUIRE(report["rounds"].size() == 2);
  CHECK(has(report["rounds"][0]["reason"], "was lost"));
  CHECK(report["rounds"][1]["nodes"] == 2);
  CHECK(report["spent_s"]["productive"] >= 100 * 0.02);
  CHECK(report["spent_s"]["lost_work"] >= 20 * 0.02);  // steps 41 to 60 at least
  CHECK(report["total_s"] <= passed.count());
}

// Jobs in files: what `ddprun run` and `ddprun submit` start on this machine, and what other shells learn of it.
#include <sys/mount.h>

#include <nlohmann/json.hpp>

#include "tests/e2e/programs.h"
#include "tests/support/free_port.h"
#include "tests/support/test.h"

using nlohmann::json;

namespace {

// A folder with a job's file, and the records of its jobs.
class Desk {
 public:
  explicit Desk(const std::string& job) { folder_.write("job.toml", job); }

  CommandOptions options() const {
    const std::string path = folder_.path().string() + ":" + std::getenv("PATH");
    return {.env = {{"XDG_STATE_HOME", folder_ / "state"}, {"PATH", path}}, .cwd = folder_.path()};
  }
  Ended ddprun(std::vector<std::string> words) const { return run(job_of(std::move(words)), kLimit, options()); }
  json facts() const { return json::parse(ddprun({"describe", "--json"}).out); }
  std::string state() const { return facts()["state"]; }
  fs::path operator/(const std::string& name) const { return folder_ / name; }
  const TempFolder& folder() const { return folder_; }

 private:
  TempFolder folder_;
};

// With a Slurm of scripts: `sbatch` is one, scontrol knows the jobs 1 and 2, which run. All note that they were called.
class SlurmDesk : public Desk {
 public:
  explicit SlurmDesk(const std::string& sbatch, const std::string& more = "") : Desk("program = ['true']\n" + more) {
    put("sbatch", sbatch);
    put("scontrol", "for id in 1 2; do printf 'JobId=%s JobName=job\\n   JobState=RUNNING\\n' $id; done");
    for (const char* program : {"scancel", "sacct"}) put(program, "exit 1");
  }
  std::string calls() const { return read_file(*this / "calls"); }
  void put(const std::string& program, const std::string& script) const {
    folder().write(program, "#!/bin/sh\necho " + program + " >>" + (*this / "calls").string() + "\n" + script + "\n",
                   true);
  }
};

// Rank 0's lines are "loss 0.5" and the like; `script` follows.
std::string shell_job_file(const std::string& script, const std::string& more = "") {
  return "nproc_per_node = 2\nmax-restarts = 0\nprogram = ['sh', '-c', '''" + script + "''']\n" + more;
}

const std::string kWaits = "echo up $RANK; while true; do sleep 0.05; done";

}  // namespace

TEST_CASE("a job in a file runs with its arguments, variables and metrics, and leaves a record", "[jobs][fast]") {
  const Desk desk(
      "source_dir = 'src'\nnproc_per_node = 2\noutput_path = 'out'\nprogram = ['sh', 'job.sh']\n"
      "[hyperparameters]\nname = 'two words'\nfast = true\n[env]\nCOLOUR = 'blue'\n"
      "[[metric_definitions]]\nName = 'loss'\nRegex = 'loss=([0-9.]+)'\n");
  fs::create_directory(desk / "src");
  desk.folder().write("src/job.sh",
                      "[ $RANK = 0 ] || { echo loss=9; exit; }\n"
                      "echo \"$COLOUR $# $2 $3\" in $(basename \"$PWD\")\necho loss=0.5\necho loss=0.25\n");
  const Ended ended = desk.ddprun({"run", "job.toml", "--set", "env.COLOUR=red", "--", "last"});
  CHECK(ended == exited(0));
  CHECK(has(ended.out, "red 4 two words --fast in src\n"));
  CHECK(ended.err.empty());
  const json facts = desk.facts();
  CHECK(facts["state"] == "succeeded");
  CHECK(facts["exit_code"] == 0);
  CHECK(facts["metrics"]["loss"] == json({{"count", 2}, {"last", 0.25}, {"max", 0.5}, {"min", 0.25}}));
  CHECK(json::parse(read_file(desk / "out/result.json"))["metrics"] == facts["metrics"]);
  CHECK(has(read_file(desk / "out/log"), "loss=0.25\n"));
  CHECK(desk.ddprun({"log"}).out == read_file(desk / "out/log"));
}

TEST_CASE("the record of a job that failed says which rank and why, and ddprun run has the job's code", "[jobs]") {
  const Desk desk(shell_job_file("echo reason 1>&2; [ $RANK = 0 ] || exit 7; sleep 20"));
  const Ended ended = desk.ddprun({"run", "job.toml"});
  CHECK(ended == exited(1));
  CHECK(has(ended.err, "rank 1 exited with code 7"));
  const json facts = desk.facts();
  CHECK(facts["state"] == "failed");
  CHECK(facts["first_failure"]["exit_code"] == 7);
  CHECK(has(facts["reason"], "rank 1 exited with code 7"));
  CHECK(has(desk.ddprun({"list"}).out, "failed"));
}

TEST_CASE("a signal to ddprun run reaches the job, and after kill -9 nothing is left", "[jobs]") {
  const Desk desk(shell_job_file("trap 'exit 0' TERM; " + kWaits));
  Command preempted(job_of({"run", "job.toml"}), desk.options());
  preempted.wait_for_output("up 1", kLimit);
  preempted.kill(SIGTERM);
  CHECK(preempted.wait_exit(kLimit) == exited(143));
  CHECK(desk.state() == "preempted");

  Command killed(job_of({"run", "job.toml"}), desk.options());
  killed.wait_for_output("up 1", kLimit);
  REQUIRE(eventually([&] { return desk.state() == "running"; }, kLimit));
  killed.kill(SIGKILL);
  CHECK(killed.wait_exit(kLimit) == killed_by(SIGKILL));
  CHECK(killed.all_gone(kLimit));
  CHECK(desk.state() == "failed");
  CHECK(desk.facts()["reason"] == "its ddprun run was killed.");
}

TEST_CASE("Ctrl-C at ddprun run ends the job once, in its grace", "[jobs]") {
  const Desk desk(shell_job_file("trap 'echo asked; sleep 0.3; echo left; exit 0' TERM INT; " + kWaits));
  CommandOptions options = desk.options();
  options.terminal = true;
  Command job(job_of({"run", "job.toml"}), options);
  job.wait_for_output("up 1", kLimit);
  job.type("\x03");
  CHECK(job.wait_exit(kLimit) == exited(130));
  CHECK(has(job.out(), "left"));  // a second SIGINT would have killed it
  CHECK(desk.state() == "stopped");
}

TEST_CASE("a submitted job goes on without its shell, log -f follows it, cancel lets it save", "[jobs][fast]") {
  const Desk desk(shell_job_file("trap 'echo saves; exit 0' TERM; " + kWaits));
  Command submit(job_of({"submit", "job.toml"}), desk.options());  // keeps the job for the test's end
  CHECK(submit.wait_exit(kLimit) == exited(0));
  const std::string handle = submit.out().substr(0, submit.out().find('\n'));
  CHECK(handle.starts_with("here://job-"));
  REQUIRE(eventually([&] { return desk.state() == "running"; }, kLimit));
  const std::string status = desk.ddprun({"status", handle}).out;
  CHECK_THAT(status, Matches("id: +job-[\\s\\S]*\nstate: +running for [0-9.]+ s, round 1\nnodes: +1 active [\\s\\S]*\n"
                             "where: +here, [\\s\\S]*\nRANK  NODE [\\s\\S]*"));

  Command log(job_of({"log", "-f", handle}), desk.options());
  log.wait_for_output("up 1", kLimit);
  CHECK(desk.ddprun({"cancel", handle}) == exited(0));
  const Ended ended = log.wait_exit(kLimit);
  CHECK(ended == exited(0));
  CHECK(has(ended.out, "saves"));
  CHECK(desk.state() == "stopped");
  CHECK(submit.all_gone(kLimit));
  CHECK(has(desk.ddprun({"cancel", handle}).err, "has ended: stopped."));
}

TEST_CASE("a job without a file is listed, described and cancelled while it runs and after its end", "[jobs][fast]") {
  const Desk desk("program = ['true']\n");
  CHECK(desk.ddprun({"--bogus", "true"}) == exited(2));
  CHECK(desk.ddprun({"--dry-run", "true"}) == exited(0));
  CHECK(desk.ddprun({"./no-such-program"}) == exited(2));
  CHECK_FALSE(fs::exists(desk / "state"));
  CHECK(desk.ddprun({"--max-restarts=0", "sh", "-c", "echo gone wrong >&2; exit 7"}) == exited(1));
  const json failed = desk.facts();
  CHECK(failed["state"] == "failed");
  CHECK(failed["first_failure"]["exit_code"] == 7);
  CHECK_THAT(failed["reason"].get<std::string>(), Contains("rank 0 exited with code 7.") && Contains("gone wrong"));
  CHECK(failed["submitted"]["command"] ==
        json({"ddprun", "--max-restarts=0", "sh", "-c", "echo gone wrong >&2; exit 7"}));

  const std::string run_id = "plain" + std::to_string(getpid());  // other tests have jobs, too
  Command job(
      job_of({"--rdzv-id=" + run_id, "--log-dir=logs", "--event-log-handler=file:events.jsonl", "sh", "-c", kWaits}),
      desk.options());
  job.wait_for_output("up 0", kLimit);
  const std::string list = desk.ddprun({"list"}).out;
  CHECK_THAT(list, Matches("JOB [\\s\\S]*\n" + run_id + " +running [\\s\\S]*\nhere://sh-[^\n]* failed [^\n]*\n"));
  CHECK(json::parse(desk.ddprun({"describe", run_id, "--json"}).out)["state"] == "running");
  CHECK(has(desk.ddprun({"log", run_id}).err, "ddprun log: " + run_id + " keeps no log: "));
  CHECK(eventually([&] { return has(desk.ddprun({"log", run_id, "--rank=0"}).out, "up 0\n"); }, kLimit));
  CHECK(has(desk.ddprun({"cancel"}).err, " has ended: failed."));  // without a name only a job of a file is meant
  CHECK(desk.ddprun({"cancel", run_id}) == exited(0));
  CHECK(job.wait_exit(kLimit) == exited(143));

  CHECK(has(desk.ddprun({"cancel", run_id}).err, " has ended: preempted."));
  const Ended log = desk.ddprun({"log", run_id});
  CHECK(log == exited(2));
  CHECK_THAT(log.err, Contains(" has its output in the files below " + (desk / ("logs/" + run_id)).string() + "."));
  CHECK(has(desk.ddprun({"log", run_id, "--rank=0"}).out, "up 0\n"));
  CHECK(has(desk.ddprun({"log", run_id, "--rank=1"}).err, "there are no files round-N/rank-1 of "));
  CHECK(has(desk.ddprun({"log", failed["id"], "--rank=0"}).err, "; --log-dir DIR keeps all in files."));
  CHECK(has(desk.ddprun({"report", run_id}).out, "job " + run_id));
  CHECK_THAT(desk.ddprun({"report", failed["id"]}).err, Contains(" has kept no events. ") && Contains("file:EVENTS"));
}

TEST_CASE("who keeps a record of its own, or is a worker of another job, leaves none of a plain job", "[jobs]") {
  const Desk desk("program = ['true']\n");
  CHECK(desk.ddprun({"run", "job.toml"}) == exited(0));
  CHECK(desk.ddprun({"sh", "-c", "\"$0\" true && [ -z \"$DDPRUN_HAS_RECORD\" ]", kDdprun}) == exited(0));
  CHECK(desk.ddprun({"--hosts=localhost:2", "true"}) == exited(0));  // its agent leaves none
  std::vector<bool> plain;
  for (const json& job : json::parse(desk.ddprun({"list", "--json"}).out))
    if (job.contains("submitted")) plain.push_back(job["submitted"].contains("command"));  // no other test's job
  CHECK(plain == std::vector<bool>{true, true, false});
}

TEST_CASE("of a plain job's nodes the first one leaves the record", "[jobs]") {
  const Desk desk("");
  const std::string port = std::to_string(free_port());
  const auto node = [&](int rank) {
    return job_of({"--nnodes=2", "--node-rank=" + std::to_string(rank), "--master-addr=127.0.0.1", "--max-restarts=0",
                   "--master-port=" + port, "--rdzv-id=of two nodes", "sh", "-c", "[ $RANK = 0 ] || exit 3", "x"});
  };
  Command second(node(1), desk.options());
  const Ended first = run(node(0), kLimit, desk.options());
  CHECK(second.wait_exit(kLimit) == first);
  const json job = desk.facts();
  CHECK(job["nodes"] == 2);
  CHECK_THAT(job["reason"].get<std::string>(), Contains("rank 1 (local rank 0) exited with code 3"));
  CHECK(std::distance(fs::directory_iterator(desk / "state/ddprun/jobs/plain"), fs::directory_iterator()) == 1);
}

TEST_CASE("a job ends as without a record where none can be kept", "[jobs]") {
  const Desk desk("");
  for (const CommandOptions& options :
       {CommandOptions{.env = {{"XDG_STATE_HOME", std::nullopt}, {"HOME", std::nullopt}}},
        CommandOptions{.env = {{"XDG_STATE_HOME", std::nullopt}, {"HOME", "/proc"}}},
        CommandOptions{.env = {{"XDG_STATE_HOME", desk / "job.toml"}}}}) {
    const Ended ended = run(job_of({"true"}), kLimit, options);
    CHECK(ended == exited(0));
    CHECK(ended.err.empty());
  }
}

TEST_CASE("without a name nothing is cancelled while several jobs go on", "[jobs]") {
  const Desk desk(shell_job_file("trap 'exit 0' TERM; " + kWaits));
  Command first(job_of({"submit", "job.toml"}), desk.options());  // keep the jobs for the test's end
  Command second(job_of({"submit", "job.toml"}), desk.options());
  CHECK(first.wait_exit(kLimit) == exited(0));
  CHECK(second.wait_exit(kLimit) == exited(0));
  const Ended refused = desk.ddprun({"cancel"});
  CHECK(refused == exited(2));
  CHECK_THAT(refused.err,
             Matches("ddprun cancel: several jobs have not ended; name one of them: job-\\S+ and job-\\S+\\.\n"));
  const auto cancel = [&](const Words& job) {
    return eventually([&] { return desk.ddprun(joined({{"cancel"}, job})) == exited(0); }, kLimit);
  };
  CHECK(cancel({first.out().substr(0, first.out().find('\n'))}));
  CHECK(first.all_gone(kLimit));
  CHECK(cancel({}));  // the newest, or the only one
  CHECK(cancel({second.out().substr(0, second.out().find('\n'))}));
  CHECK(second.all_gone(kLimit));
}

TEST_CASE("submit --wait shows the output and ends with the job's code", "[jobs]") {
  const Desk desk(shell_job_file("echo works; exit 3"));
  const Ended ended = desk.ddprun({"submit", "--wait", "job.toml"});
  CHECK(ended == exited(1));
  CHECK(has(ended.out, "works"));
}

TEST_CASE("a snapshot is fetched before the start, stored when it has changed, and at the end", "[jobs][sanitized]") {
  const Desk desk(
      shell_job_file("[ $RANK = 0 ] || exit 0; echo resumes from $(cat run.pt); echo 2 > run.pt",
                     "[snapshot]\npath = 'run.pt'\nfetch = '[ -z \"$DDPRUN_TOKEN\" ] && cp \"$REMOTE\" {path}'\n"
                     "store = 'cp {path} \"$REMOTE\"'\n"));
  CommandOptions options = desk.options();
  options.env["REMOTE"] = desk / "a 'remote' one";
  options.env["DDPRUN_TOKEN"] = "0123456789abcdef0123456789abcdef";  // not for the job's commands
  desk.folder().write("a 'remote' one", "1\n");
  const Ended ended = run(job_of({"run", "job.toml"}), kLimit, options);
  CHECK(ended == exited(0));
  CHECK(has(ended.out, "resumes from 1\n"));
  CHECK(read_file(desk / "a 'remote' one") == "2\n");
  const fs::path record = fs::directory_iterator(desk / "state/ddprun/jobs")->path();
  CHECK(has(desk.ddprun({"report", (record / "events.jsonl").string()}).out,
            "newest snapshot: " + (desk / "run.pt").string() + "\n"));

  fs::remove(desk / "run.pt");
  fs::remove(desk / "a 'remote' one");
  const Ended refused = run(job_of({"run", "job.toml"}), kLimit, options);
  CHECK(refused == exited(69));
  CHECK(has(refused.err, "the snapshot was not fetched: the command exited with code 1: cp: "));
  CHECK(desk.state() == "failed");

  const Ended unsaved =
      run(job_of({"run", "job.toml", "--set", "snapshot.fetch=", "--set", "snapshot.store=exit 1"}), kLimit, options);
  CHECK(unsaved == exited(73));
  CHECK(has(unsaved.err, "the snapshot was not stored: the command exited with code 1."));
}

TEST_CASE("what Slurm may have is kept as unclear, and nobody else's job is asked about or cancelled", "[jobs]") {
  const SlurmDesk desk("echo 'sbatch: error: Socket timed out on send/recv operation' >&2; exit 1");
  const Ended submitted = desk.ddprun({"submit", "--to", "slurm", "job.toml"});
  CHECK(submitted == exited(93));
  CHECK(has(submitted.err, "Socket timed out on send/recv operation. squeue --me --name=job shows its number"));
  CHECK_THAT(desk.ddprun({"list"}).out, Matches("[\\s\\S]*\nslurm://job-[0-9a-z]{6} +unclear [\\s\\S]*"));
  CHECK(has(desk.ddprun({"describe", "job"}).out, "squeue --me --name=job"));
  const Ended cancelled = desk.ddprun({"cancel", "job"});
  CHECK(cancelled == exited(2));
  CHECK(has(cancelled.err, "scancel with that number ends it"));
  CHECK(desk.calls() == "sbatch\n");
}

TEST_CASE("a job that Slurm refuses leaves no record, and sbatch gets no token", "[jobs]") {
  const SlurmDesk desk("echo \"error: nope, token ${DDPRUN_TOKEN-none}\" >&2; exit 1");
  CommandOptions options = desk.options();
  options.env["DDPRUN_TOKEN"] = "0123456789abcdef0123456789abcdef";
  const Ended refused = run(job_of({"submit", "--to", "slurm", "job.toml"}), kLimit, options);
  CHECK(refused == exited(69));
  CHECK(has(refused.err, "error: nope, token none."));
  CHECK(fs::is_empty(desk / "state/ddprun/jobs"));
}

TEST_CASE("what a cluster may have of a job is removed by its name", "[jobs]") {
  const SlurmDesk desk("", "[kubernetes]\nimage = 'x'\n");
  desk.put(
      "kubectl",
      "case $1 in apply) cat >manifest; echo secret/x serverside-applied; exit 1;; get) echo '{\"items\": []}';; esac");
  const Ended submitted = desk.ddprun({"submit", "--to", "k8s", "job.toml"});
  CHECK(submitted == exited(93));
  CHECK(has(submitted.err, " removes what it has."));
  CHECK(has(read_file(desk / "manifest"), "kind: Secret"));
  CHECK(desk.state() == "unclear");
  CHECK(desk.ddprun({"cancel", "job"}) == exited(0));
  CHECK(desk.state() == "stopped");
}

TEST_CASE("a killed submit leaves its job as unclear", "[jobs]") {
  const SlurmDesk desk("kill -9 $PPID");
  CHECK(desk.ddprun({"submit", "--to", "slurm", "job.toml"}) == killed_by(SIGKILL));
  CHECK(has(desk.ddprun({"status"}).out,
            "Slurm may have this job or not: ddprun submit ended before it had the answer."));
}

TEST_CASE("the number of a job that Slurm has taken is told although its record cannot be written", "[jobs]") {
  const SlurmDesk desk("cd \"${2%/*}\" && rm submitted.json && mkdir submitted.json && echo 17");
  const Ended submitted = desk.ddprun({"submit", "--to", "slurm", "job.toml"});
  CHECK(submitted == exited(93));
  CHECK(has(submitted.err, "the job is submitted, as Slurm's job 17, but cannot write "));
  CHECK_FALSE(fs::is_empty(desk / "state/ddprun/jobs"));
}

TEST_CASE("sbatch's end counts, not that of what it has started, and the list asks Slurm once about all jobs",
          "[jobs]") {
  const SlurmDesk desk("sleep 600 & echo >>submitted; wc -l <submitted");
  for (int i = 0; i < 2; ++i) {
    const Ended submitted = desk.ddprun({"submit", "--to", "slurm", "job.toml"});
    CHECK(submitted == exited(0));
    CHECK_THAT(submitted.out, Matches("slurm://job-[0-9a-z]{6}\n"));
    CHECK(has(submitted.err, "Slurm's job is " + std::to_string(i + 1) + "."));
  }
  fs::create_directories(desk / "state/ddprun/jobs/torn-abc123");
  desk.folder().write("state/ddprun/jobs/torn-abc123/submitted.json", "{\"place\": 7}");
  const Ended listed = desk.ddprun({"list"});
  CHECK(listed == exited(0));
  const std::string row = "slurm://job-[0-9a-z]{6} +running [^\n]*\n";
  CHECK_THAT(listed.out, Matches("[\\s\\S]*" + row + row + "[\\s\\S]*"));
  CHECK_THAT(listed.out, Matches("[\\s\\S]*\ntorn-abc123 +unreadable [\\s\\S]*"));
  CHECK(has(desk.ddprun({"describe", "torn"}).out, "has a 'place' that is no place"));
  CHECK(desk.calls() == "sbatch\nsbatch\nscontrol\n");
}

namespace {

// A file system of so many bytes, mounted at a folder; root's alone to make.
class SmallDisk {
 public:
  SmallDisk(const fs::path& folder, const char* size) : folder_(folder) {
    fs::create_directory(folder);
    mounted_ = mount("tmpfs", folder.c_str(), "tmpfs", 0, size) == 0;
  }
  ~SmallDisk() { umount2(folder_.c_str(), MNT_DETACH); }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  bool mounted() const { return mounted_; }

 private:
  fs::path folder_;
  bool mounted_ = false;
};

int times(const std::string& text, const std::string& words) {
  int found = 0;
  for (std::size_t at = 0; (at = text.find(words, at)) != std::string::npos; at += words.size()) ++found;
  return found;
}

const std::string kStores = "[snapshot]\npath = 'run.pt'\n";
const std::string kOneSaves = "[ $RANK = 0 ] || exit 0; ";  // what follows is done by rank 0

}  // namespace

TEST_CASE("a full disk under the record, the log and output_path is told once each, and the job goes on", "[jobs]") {
  const Desk desk(
      "output_path = 'out'\n" +
      shell_job_file(kOneSaves + "head -c 300000 /dev/zero >state/fill 2>&-; head -c 300000 /dev/zero >out/fill 2>&-;"
                                 "echo 1 >run.pt; head -c 40000 /dev/zero | tr '\\0' x; echo; "
                                 "until [ -e go ]; do sleep 0.02; done; rm state/fill; echo room; "
                                 "until [ -e end ]; do sleep 0.02; done; echo 2 >run.pt; exit 3",
                     kStores + "store = 'cp {path} stored'\nevery = '20ms'\n"));
  const SmallDisk state(desk / "state", "size=200k"), out(desk / "out", "size=200k");
  if (skipped_if(!state.mounted() || !out.mounted(), "no small disk can be mounted here")) return;
  Command job(job_of({"run", "job.toml"}), desk.options());
  const std::string lost = "output is lost in the job's log ", stale = "the job's record is not up to date";
  CHECK(eventually([&] { return has(job.err(), lost) && has(job.err(), stale); }, kLimit));
  desk.folder().write("go", "");
  CHECK(eventually([&] { return has(job.err(), "the job's record is up to date again."); }, kLimit));
  desk.folder().write("end", "");
  const Ended ended = job.wait_exit(kLimit);
  CHECK(ended == exited(1));  // ddprun's, as worker 0 has failed
  for (const std::string& sentence : {lost, stale}) CHECK(times(ended.err, sentence) == 1);
  CHECK(has(ended.err, "No space left on device"));
  CHECK_THAT(ended.err, Matches("[\\s\\S]*the job's log \\S+ is written again, without [0-9]+ bytes\\.[\\s\\S]*"));
  CHECK(has(ended.err, "cannot write " + (desk / "out/log").string() + ": "));
  CHECK(read_file(desk / "stored") == "2\n");
  CHECK(desk.facts()["exit_code"] == 1);
}

TEST_CASE("a record that cannot be written at all refuses the start", "[jobs]") {
  const Desk desk(shell_job_file("echo up"));
  desk.folder().write("state", "a file");
  const Ended ended = desk.ddprun({"run", "job.toml"});
  CHECK(ended == exited(69));
  CHECK_FALSE(has(ended.out, "up"));
}

namespace {

// Until ddprun has ended, and `ddprun run` has seen it: rank 0 has written the pid into the file "keeper".
const std::string kTellsKeeper = "ps -o ppid= -p $PPID >keeper; ";
bool job_has_ended(const Desk& desk) {
  const int keeper = std::atoi(read_file(desk / "keeper").c_str());
  return keeper > 0 && kill(keeper, 0) != 0;
}

}  // namespace

TEST_CASE("one signal ends a copy of the snapshot that hangs, and the exit code is the job's", "[jobs]") {
  const int signal = GENERATE(SIGTERM, SIGINT);
  const Desk desk(
      shell_job_file(kOneSaves + kTellsKeeper + "echo 1 >run.pt", kStores + "store = 'touch begun; sleep 1000'\n"));
  Command job(job_of({"run", "job.toml"}), desk.options());
  REQUIRE(eventually([&] { return fs::exists(desk / "begun") && job_has_ended(desk); }, kLimit));
  job.kill(signal);
  const Ended ended = job.wait_exit(kLimit);
  CHECK(ended == exited(0));
  CHECK(has(ended.err, std::string("the snapshot was not stored: the command was stopped by ") +
                           (signal == SIGTERM ? "SIGTERM" : "SIGINT") + ".\n"));
  CHECK(job.all_gone(kLimit));
  CHECK(desk.state() == "succeeded");
}

TEST_CASE("a copy of the snapshot that takes longer than its limit is ended, and a job's own signal ends none",
          "[jobs]") {
  const Desk desk(shell_job_file(kOneSaves + "echo 1 >run.pt", kStores + "store = 'sleep 1000'\nlimit = '200ms'\n"));
  const Ended ended = desk.ddprun({"run", "job.toml"});
  CHECK(ended == exited(73));
  CHECK(has(ended.err, "the snapshot was not stored: the command has not ended within 200 ms (snapshot.limit).\n"));

  const Desk asked(shell_job_file("trap 'echo 1 >run.pt; exit 0' TERM; " + kWaits,
                                  kStores + "store = 'sleep 0.3; cp {path} stored'\n"));
  Command job(job_of({"run", "job.toml"}), asked.options());
  job.wait_for_output("up 1", kLimit);
  job.kill(SIGTERM);
  CHECK(job.wait_exit(kLimit) == exited(143));
  CHECK(read_file(asked / "stored") == "1\n");
}

TEST_CASE("a job's file that is wrong is told in full, and nothing starts", "[jobs]") {
  const Desk desk("entry_pont = 'a'\nnproc_per_node = 'many'\n");
  const Ended ended = desk.ddprun({"run", "job.toml"});
  CHECK(ended == exited(2));
  CHECK(has(ended.err, "job.toml:1: there is no key entry_pont. Did you mean 'entry_point'?\n"));
  CHECK(has(ended.err, "job.toml:2: nproc-per-node is 'many'"));
  CHECK_FALSE(fs::exists(desk / "state"));
  CHECK(desk.ddprun({"run", "none.toml"}).err ==
        "ddprun run: cannot read the job's file none.toml: No such file or directory.\n");
  CHECK_THAT(desk.ddprun({"status", "none"}).err,
             Matches("ddprun status: no job (has been run or submitted here|is called none). *[\\s\\S]*"));
}

TEST_CASE("a dry run prints what would run, and makes no record", "[jobs]") {
  const Desk desk(shell_job_file("true"));
  const Ended ended = desk.ddprun({"submit", "--dry-run", "job.toml"});
  CHECK(ended == exited(0));
  CHECK(has(ended.out, "--config " + (desk / "state/ddprun/jobs/job-000000/ddprun.toml").string()));
  CHECK(has(ended.out, "\nnproc-per-node = 2\n"));
  CHECK_FALSE(fs::exists(desk / "state"));
}

TEST_CASE("ddprun run with a token is hidden from processes of its user", "[jobs]") {
  const std::vector<std::string> as_nobody{"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"};
  const bool can = geteuid() == 0 && run(joined({as_nobody, {kDdprun, "--version"}}), kLimit) == exited(0);
  if (skipped_if(!can, "ddprun cannot be started as another user here")) return;
  for (const bool has_token : {true, false}) {
    const Desk desk("nproc_per_node = 1\nprogram = ['sh', 'job.sh']\n");
    desk.folder().write("job.sh",
                        "above() { ps -o ppid= -p $1 | tr -d ' '; }\nrun=$(above $(above $PPID))\n"
                        "stat -c %u /proc/$run/mem /proc/$$/mem\n");
    fs::permissions(desk.folder().path(), fs::perms::all);
    CommandOptions options = desk.options();
    if (has_token) options.env["DDPRUN_TOKEN"] = "0123456789abcdef0123456789abcdef";
    const Ended ended = run(joined({as_nobody, job_of({"run", "job.toml"})}), kLimit, options);
    CHECK(ended == exited(0));
    CHECK(ended.out == (has_token ? "0\n65534\n" : "65534\n65534\n"));
  }
}

TEST_CASE("a scheduler's programs do not get the token", "[jobs]") {
  const Desk desk(shell_job_file("true"));
  desk.folder().write("sbatch", "#!/bin/sh\necho token \"$DDPRUN_TOKEN\" >got\necho 17\n");
  fs::permissions(desk / "sbatch", fs::perms::owner_all);
  CommandOptions options = desk.options();
  options.env["DDPRUN_TOKEN"] = "0123456789abcdef0123456789abcdef";
  options.env["PATH"] = desk.folder().path().string() + ":" + std::getenv("PATH");
  const Ended ended = run(job_of({"submit", "--to", "slurm", "job.toml"}), kLimit, options);
  CHECK(ended == exited(0));
  CHECK(read_file(desk / "got") == "token \n");
}

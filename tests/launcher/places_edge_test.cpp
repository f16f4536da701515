// Programs with a limit; and kubectl and Slurm's programs by stand-ins on PATH, which note their arguments. A real
// Slurm is asked in tests/schedulers.
#include "launcher/jobs/places/kubernetes.h"
#include "launcher/jobs/places/shared_record.h"
#include "launcher/jobs/places/slurm.h"
#include "launcher/scheduler/program_run.h"
#include "rendezvous/base/error.h"
#include "tests/support/test.h"

using How = ProgramEnd::How;
using Phase = PlaceState::Phase;

namespace {

// A folder that is all of PATH but the shell's own programs, for the life of the object.
class Path {
 public:
  Path() : before_(std::getenv("PATH")) { setenv("PATH", (folder_.path().string() + ":/usr/bin:/bin").c_str(), 1); }
  ~Path() { setenv("PATH", before_.c_str(), 1); }
  Path(const Path&) = delete;
  Path& operator=(const Path&) = delete;

  // Notes its arguments and its stdin, then does what `script` says.
  void put(const std::string& program, const std::string& script) const {
    const std::string calls = (folder_ / "calls").string();
    folder_.write(program, "#!/bin/sh\necho \"" + program + " $*\" >>" + calls + "\n" + script + "\n", true);
  }
  void alone() const { setenv("PATH", folder_.path().c_str(), 1); }
  std::string calls() const { return test::read_file(folder_ / "calls"); }
  fs::path operator/(const char* name) const { return folder_ / name; }

 private:
  TempFolder folder_;
  std::string before_;
};

}  // namespace

TEST_CASE("a program's output, code and signal are taken", "[places]") {
  const ProgramEnd end = run_program({"sh", "-c", "cat; echo wrong >&2; exit 3"}, 10s, "in\n");
  CHECK((end.how == How::exited && end.code == 3 && end.out == "in\n" && end.err == "wrong\n"));
  CHECK_FALSE(end.succeeded());
  CHECK(run_program({"true"}, 10s).succeeded());
  const ProgramEnd killed = run_program({"sh", "-c", "kill -9 $$"}, 10s);
  CHECK((killed.how == How::killed && killed.code == 9));
  CHECK(run_program({"no-such-program-here"}, 10s).how == How::not_found);
}

TEST_CASE("more than a pipe holds goes in and out", "[places]") {
  const std::string much(3 << 20, 'x');
  CHECK(run_program({"cat"}, 60s, much).out == much);
  CHECK(run_program({"true"}, 10s, much).succeeded());  // it reads nothing of it
}

TEST_CASE("a program that does not end is ended at the limit, with what it has started", "[places]") {
  const ProgramEnd end = run_program({"sh", "-c", "sleep 600 & echo $!; wait"}, 300ms);
  CHECK(end.how == How::too_late);
  const std::string child = end.out.substr(0, end.out.find('\n'));
  const bool gone = test::eventually(
      [&] {
        const std::string status = test::read_file("/proc/" + child + "/stat");
        return status.empty() || status.find(") Z ") != status.npos;
      },
      10s);
  CHECK(gone);
}

TEST_CASE("a program's end is not missed when something that it has started keeps its output open", "[places]") {
  const TimePoint begin = Clock::now();
  const ProgramEnd end = run_program({"sh", "-c", "sleep 600 & echo $!"}, 60s);
  CHECK(Clock::now() - begin < 60s);
  CHECK(end.succeeded());
  const pid_t left = std::stoi(end.out);
  CHECK(kill(left, 0) == 0);  // it may be what the user wanted
  kill(left, SIGKILL);
}

TEST_CASE("of a slow program one is told, once", "[places]") {
  int told = 0;
  CHECK(run_program({"sleep", "600"}, 300ms, {}, {50ms, [&] { ++told; }}).how == How::too_late);
  CHECK(run_program({"true"}, 60s, {}, {60s, [&] { ++told; }}).succeeded());
  CHECK(told == 1);
}

TEST_CASE("a missing kubectl or sbatch is one sentence", "[places]") {
  const Path path;
  path.alone();
  CHECK_THROWS_WITH(submit_to_kubernetes("x"), Contains("there is no kubectl on PATH"));
  CHECK_THROWS_WITH(submit_to_slurm("x"), Contains("there is no sbatch on PATH"));
}

TEST_CASE("a manifest goes to kubectl by stdin", "[places]") {
  const Path path;
  path.put("kubectl", "cat >" + (path / "manifest").string());
  submit_to_kubernetes("kind: Job\n");
  CHECK(path.calls() == "kubectl apply --server-side --field-manager=ddprun --filename=-\n");
  CHECK(test::read_file(path / "manifest") == "kind: Job\n");
  path.put("kubectl", "echo 'error: no cluster' >&2; exit 1");
  CHECK_THROWS_WITH(submit_to_kubernetes("x"), Contains("cannot submit the job to Kubernetes: error: no cluster."));
}

TEST_CASE("where a cluster may have part of a job, that is unclear, and where nothing was sent, it is refused",
          "[places]") {
  const Path path;
  const auto unclear = [&](const std::string& script) {
    path.put("kubectl", script);
    try {
      submit_to_kubernetes("x");
    } catch (const SubmissionUnclear&) {
      return true;
    } catch (const Error&) {
    }
    return false;
  };
  CHECK(unclear("echo secret/digits-x3k9p2 serverside-applied; echo 'error: quota' >&2; exit 1"));
  CHECK(unclear("echo 'Error from server (Timeout): request timed out' >&2; exit 1"));
  CHECK(unclear("kill -9 $$"));
  CHECK_FALSE(unclear("echo 'Unable to connect to the server: dial tcp 10.0.0.1:443: i/o timeout' >&2; exit 1"));
  CHECK_FALSE(unclear("echo 'error: context \"x\" does not exist' >&2; exit 1"));
}

TEST_CASE("kubectl is asked about all jobs of a namespace at once", "[places]") {
  const Path path;
  path.put("kubectl", R"(echo '{"items": [{"kind": "Job", "metadata": {"labels": {"ddprun/job": "b"}},
    "status": {"conditions": [{"type": "Complete", "status": "True"}]}}]}')");
  const PlaceAnswers answers = kubernetes_job_states({{"a"}, {"b"}});
  CHECK(path.calls() == "kubectl get jobs.batch,pods --selector=ddprun/job in (a,b) --output=json\n");
  CHECK(answers.states.at("a").phase == Phase::gone);
  CHECK(answers.states.at("b").phase == Phase::succeeded);
  CHECK(answers.problem.empty());
  path.put("kubectl", "echo 'error: no cluster' >&2; exit 1");
  CHECK_THAT(kubernetes_job_states({{"a"}}).problem, Contains("error: no cluster"));
}

TEST_CASE("without a well-formed number or name nobody is asked, and nothing is cancelled", "[places]") {
  const Path path;
  for (const char* program : {"scontrol", "scancel", "sacct", "kubectl"}) path.put(program, "exit 0");
  for (const std::string id : {"", " ", "0", "-1", "17 18", "17;", "17_4", "all", "17;-x", "17\n"}) {
    INFO(id);
    CHECK_THROWS_AS(slurm_job_state(id), UsageError);
    CHECK_THROWS_AS(slurm_job_states({"17", id}), UsageError);
    CHECK_THROWS_AS(cancel_slurm_job(id, 1s), UsageError);
  }
  for (const std::string name : {"", "-x", "a,b", "a)", "A"}) {
    CHECK_THROWS_AS(kubernetes_job_state({name}), UsageError);
    CHECK_THROWS_AS(cancel_kubernetes_job({name}), UsageError);
    CHECK_THROWS_AS(kubernetes_log_command({name}, false), UsageError);
  }
  CHECK_FALSE(fs::exists(path / "calls"));
}

TEST_CASE("kubectl is asked about a job and its pods, and removes all of it", "[places]") {
  const Path path;
  const KubernetesJob job{"digits-x3k9p2", "training", false};
  const KubernetesJob set{"digits-x3k9p2", "", true};
  path.put("kubectl", "cat " + test::source_folder() + "/tests/launcher/testdata/places/running.json");
  const PlaceState state = kubernetes_job_state(job);
  CHECK(state.phase == Phase::running);
  CHECK(state.where == "node-a,node-b");
  cancel_kubernetes_job(set);
  CHECK(path.calls() ==
        "kubectl --namespace=training get jobs.batch,pods --selector=ddprun/job=digits-x3k9p2 --output=json\n"
        "kubectl delete jobsets.jobset.x-k8s.io,services,configmaps,secrets --selector=ddprun/job=digits-x3k9p2 "
        "--wait=false --ignore-not-found\n");
  path.put("kubectl", "echo no JSON");
  CHECK_THROWS_WITH(kubernetes_job_state(job), Contains("something else than JSON"));
}

TEST_CASE("the log is that of the pod with index 0", "[places]") {
  const std::vector<std::string> expected{"kubectl",
                                          "--namespace=training",
                                          "logs",
                                          "--selector=ddprun/job=d,batch.kubernetes.io/job-completion-index=0",
                                          "--container=ddprun",
                                          "--tail=-1",
                                          "--follow"};
  CHECK(kubernetes_log_command({"d", "training", false}, true) == expected);
}

TEST_CASE("what sbatch says is passed on", "[places]") {
  const Path path;
  setenv("SBATCH_WAIT", "1", 1);
  path.put("sbatch", "[ -z \"$SBATCH_WAIT\" ] && echo '17;east'");
  CHECK(submit_to_slurm("job.sbatch") == "17;east");
  path.put("sbatch", "echo 'sbatch: error: invalid partition specified: nope' >&2; exit 1");
  CHECK_THROWS_WITH(submit_to_slurm("job.sbatch"),
                    Contains("Slurm: sbatch: error: invalid partition specified: nope."));
}

TEST_CASE("where Slurm may have the job, that is unclear", "[places]") {
  const Path path;
  path.put("sbatch", "echo 'sbatch: error: Socket timed out on send/recv operation' >&2; exit 1");
  CHECK_THROWS_AS(submit_to_slurm("job.sbatch"), SubmissionUnclear);
  path.put("sbatch", "sleep 600");
  std::string told;
  CHECK_THROWS_AS(submit_to_slurm("job.sbatch", {50ms, 300ms, [&](const std::string& text) { told += text; }}),
                  SubmissionUnclear);
  CHECK_THAT(told, Contains("it may have submitted the job, so ddprun waits"));
}

TEST_CASE("Slurm is asked about all jobs at once", "[places]") {
  const Path path;
  path.put("scontrol", "cat >>" + (path / "questions").string() +
                           "\necho 'scontrol: show job 17'; printf 'JobId=17 JobName=a\\n   JobState=RUNNING\\n'\n"
                           "echo 'scontrol: show job 18'; echo 'slurm_load_jobs error: Invalid job id specified' >&2\n"
                           "printf 'scontrol: JobId=19 JobName=b\\n   JobState=PENDING Reason=Priority\\n'; exit 1");
  path.put("sacct", "echo '18|COMPLETED|0:0|n1'");
  const PlaceAnswers answers = slurm_job_states({"17", "18", "19", "20"});
  CHECK(path.calls() ==
        "scontrol \nsacct --parsable2 --noheader --duplicates --allocations --format=JobIDRaw,State,ExitCode,NodeList "
        "--jobs=18,20\n");
  CHECK(test::read_file(path / "questions") == "show job 17\nshow job 18\nshow job 19\nshow job 20\n");
  CHECK(answers.states.at("17").phase == Phase::running);
  CHECK(answers.states.at("18").phase == Phase::succeeded);
  CHECK(answers.states.at("19").detail == "waiting: Priority");
  CHECK(answers.states.at("20").phase == Phase::gone);
  CHECK(answers.problem.empty());
}

TEST_CASE("a job that Slurm does not answer about is left out, and why is told", "[places]") {
  const Path path;
  path.put("scontrol",
           "case \"$*\" in *east*) echo 'Unable to contact slurm controller' >&2; exit 1;; esac\n"
           "printf 'JobId=17 JobName=a\\n   JobState=RUNNING\\n'");
  const PlaceAnswers answers = slurm_job_states({"17", "17;east"});
  CHECK(answers.states.at("17").phase == Phase::running);
  CHECK_FALSE(answers.states.contains("17;east"));
  CHECK_THAT(answers.problem, Contains("Unable to contact slurm controller"));
}

TEST_CASE("a job of another cluster is asked about there", "[places]") {
  const Path path;
  path.put("scontrol", "printf 'JobId=17 JobName=a\\n   JobState=PENDING Reason=Priority Dependency=(null)\\n'");
  CHECK(slurm_job_state("17;east").detail == "waiting: Priority");
  CHECK(path.calls() == "scontrol --clusters=east show job 17\n");
}

TEST_CASE("a job that Slurm has forgotten is gone, or in its accounts", "[places]") {
  const Path path;
  path.put("scontrol", "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1");
  path.put("sacct", "echo 'Slurm accounting storage is disabled' >&2; exit 1");
  CHECK(slurm_job_state("17").phase == Phase::gone);
  path.put("sacct", "echo '17|REQUEUED|75:0|n1'; echo '17|COMPLETED|0:0|n2'");
  CHECK(slurm_job_state("17").requeues == 1);
  path.put("scontrol",
           "echo 'slurm_load_jobs error: Unable to contact slurm controller (connect failure)' >&2; exit 1");
  CHECK_THROWS_WITH(slurm_job_state("17"), Contains("Unable to contact slurm controller"));
}

TEST_CASE("a job with more to save than KillWait allows gets SIGTERM first, another is cancelled at once", "[places]") {
  const Path path;
  const std::string ended = (path / "ended").string();
  path.put("scancel", "[ \"$1\" != --signal=TERM ] || touch " + ended);
  path.put("scontrol", "if [ \"$2\" = config ]; then echo 'KillWait = 30 sec'; exit; fi\necho JobId=17\nif [ -e " +
                           ended + " ]; then echo JobState=PENDING; else echo JobState=RUNNING; fi");
  cancel_slurm_job("17", 25s);
  const std::string at_once = "scontrol show job 17\nscontrol show config\nscancel 17\n";
  CHECK(path.calls() == at_once);
  cancel_slurm_job("17", 170s);
  CHECK(path.calls() == at_once + "scontrol show job 17\nscontrol show config\nscancel --signal=TERM 17\n" +
                            "scontrol show job 17\nscancel 17\n");
}

TEST_CASE("a record that a node does not see is named, with the node", "[places]") {
  const TempFolder folder;
  CHECK_THROWS_WITH(check_shared_record(folder / "none"),
                    Contains("there is no such folder on ") && Contains("XDG_STATE_HOME"));
  CHECK_THROWS_WITH(check_shared_record(folder.path()), Contains("it has no job.toml on "));
  folder.write("job.toml", "");
  CHECK_NOTHROW(check_shared_record(folder.path()));
}

// Programs with a limit; and kubectl and Slurm's programs by stand-ins on PATH, which note their arguments. A real
// Slurm is asked in tests/schedulers.
#include "launcher/jobs/places/kubernetes.h"
#include "launcher/jobs/places/program_run.h"
#include "launcher/jobs/places/shared_record.h"
#include "launcher/jobs/places/slurm.h"
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
  CHECK(path.calls() == "kubectl apply --filename=-\n");
  CHECK(test::read_file(path / "manifest") == "kind: Job\n");
  path.put("kubectl", "echo 'error: no cluster' >&2; exit 1");
  CHECK_THROWS_WITH(submit_to_kubernetes("x"), Contains("cannot submit the job to Kubernetes: error: no cluster."));
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

TEST_CASE("a job of another cluster is asked about there", "[places]") {
  const Path path;
  path.put("scontrol", "echo '   JobState=PENDING Reason=Priority Dependency=(null)'");
  CHECK(slurm_job_state("17;east").detail == "waiting: Priority");
  CHECK(path.calls() == "scontrol --clusters=east show job 17\n");
}

TEST_CASE("a job that Slurm has forgotten is gone, or in its accounts", "[places]") {
  const Path path;
  path.put("scontrol", "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1");
  path.put("sacct", "echo 'Slurm accounting storage is disabled' >&2; exit 1");
  CHECK(slurm_job_state("17").phase == Phase::gone);
  path.put("sacct", "echo 'REQUEUED|75:0|n1'; echo 'COMPLETED|0:0|n2'");
  CHECK(slurm_job_state("17").requeues == 1);
  path.put("scontrol",
           "echo 'slurm_load_jobs error: Unable to contact slurm controller (connect failure)' >&2; exit 1");
  CHECK_THROWS_WITH(slurm_job_state("17"), Contains("Unable to contact slurm controller"));
}

TEST_CASE("a job with more to save than KillWait allows gets SIGTERM first, another is cancelled at once", "[places]") {
  const Path path;
  const std::string ended = (path / "ended").string();
  path.put("scancel", "[ \"$1\" != --signal=TERM ] || touch " + ended);
  path.put("scontrol", "if [ \"$2\" = config ]; then echo 'KillWait = 30 sec'; exit; fi\nif [ -e " + ended +
                           " ]; then echo JobState=PENDING; else echo JobState=RUNNING; fi");
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

// Slurm's side of `ddprun submit`: testdata/places/*.sbatch are whole scripts, rewritten by DDPRUN_UPDATE=1.
#include "launcher/jobs/places/quoting.h"
#include "launcher/jobs/places/slurm_script.h"
#include "launcher/jobs/places/slurm_state.h"
#include "launcher/jobs/places/slurm_words.h"
#include "rendezvous/base/spelling.h"
#include "tests/support/test.h"
#include "tests/support/transcript.h"

using Phase = PlaceState::Phase;

namespace {

const fs::path kFolder = test::source_folder() + "/tests/launcher/testdata/places";
const std::string kRecord = "/home/vera/.local/state/ddprun/jobs/digits-x3k9p2";

JobDescription two_nodes() {
  JobDescription job;
  job.name = "digits";
  job.source_dir = "/home/vera/digits";
  job.nodes = 2;
  job.max_run = 8h;
  return job;
}

JobDescription with_own_words() {
  JobDescription job = two_nodes();
  job.source_dir = "/home/vera/the \"best\" #1 \\ digits";
  job.options = {"--stop-grace=170", "--token-file", "job.token"};
  job.tags = {"team=vision", "it's new"};
  job.slurm = {{"partition", "gpu"},
               {"nodes", "2-4"},
               {"gpus_per_node", "8"},
               {"cpus-per-task", "32"},
               {"constraint", "[rack1|rack2]"},
               {"exclusive", ""},
               {"no-kill", ""},
               {"export", "NONE"},
               {"no-requeue", ""},
               {"mail-type", "END,FAIL"}};
  return job;
}

void check_script(const std::string& name, const JobDescription& job, const std::string& record) {
  const std::string script = slurm_script(job, record, "/usr/bin/ddprun");
  INFO(name << " is now\n" << script);
  CHECK(test::matches_golden(kFolder / name, script));
  const Ended checked = test::run({"bash", "-n", kFolder / name}, 10s);
  CHECK(checked == test::exited(0));
  CHECK(checked.err.empty());
}

std::vector<std::string> problems_of(const SchedulerWords& words) {
  JobDescription job = two_nodes();
  job.slurm = words;
  return slurm_problems(job);
}

std::string time_limit(Duration max_run, const std::vector<std::string>& options = {}) {
  JobDescription job = two_nodes();
  job.max_run = max_run;
  job.options = options;
  return slurm_time_limit(job);
}

const std::string kRunning = R"(JobId=2 JobName=x JobState=FAILED
   UserId=root(0) GroupId=root(0) MCS_label=N/A
   JobState=RUNNING Reason=None Dependency=(null)
   Requeue=1 Restarts=2 BatchFlag=1 Reboot=0 ExitCode=0:0
   RunTime=00:00:00 TimeLimit=00:06:00 TimeMin=N/A
   ReqNodeList=(null) ExcNodeList=(null)
   NodeList=host[0-1]
   BatchHost=host0
   Comment=JobState=FAILED
)";

std::string with(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

PlaceState shown(const std::string& state, const std::string& code) {
  const std::string text =
      with(with(kRunning, "JobState=RUNNING", "JobState=" + state), "ExitCode=0:0", "ExitCode=" + code);
  return state_from_scontrol(text).value();
}

}  // namespace

TEST_CASE("a job's script for sbatch", "[places]") {
  check_script("two-nodes.sbatch", two_nodes(), kRecord);
  check_script("own-words.sbatch", with_own_words(), "/work/100%/state of vera's/ddprun/jobs/digits-x3k9p2");
  JobDescription one;
  one.name = "one";
  check_script("one-node.sbatch", one, kRecord);
}

TEST_CASE("a job's steps enter a container, by pyxis or by apptainer", "[places]") {
  JobDescription job = two_nodes();
  job.slurm = {{"partition", "gpu"},
               {"image", "nvcr.io#nvidia/pytorch:25.10-py3"},
               {"mounts", "/data/our images:/data:ro"},
               {"container-writable", ""}};
  check_script("pyxis.sbatch", job, kRecord);
  job.slurm = {{"container-image", "/images/torch.sif"}, {"ddprun", "inside"}};
  check_script("apptainer.sbatch", job, kRecord);
}

// A srun that shows what it is given, on a node with ddprun in a folder that holds more than ddprun.
TEST_CASE("a container sees the record, the job's folder and ddprun's own files, and nothing else of its folder",
          "[places]") {
  const TempFolder folder;
  for (const char* name : {"bin", "lib/ddprun", "lib/other", "share/ddprun", "record"})
    fs::create_directories(folder / name);
  folder.write("bin/srun", "#!/bin/sh\nprintf '%s\\n' \"$@\"\n", true);
  const std::string ddprun = folder.write("bin/ddprun", "#!/bin/sh\necho secret\n", true);
  const std::string root = folder.path(), record = folder / "record";
  JobDescription job = two_nodes();
  job.slurm = {{"image", "a b#c"}, {"no-requeue", ""}};
  const std::string script = folder.write("script", slurm_script(job, record, ddprun));
  const Ended ended = test::run({"env", "PATH=" + root + "/bin:/usr/bin:/bin", "bash", script}, 10s);
  CHECK(ended == test::exited(0));
  CHECK_THAT(ended.out, StartsWith("--container-image=a b#c\n--container-mounts=" + record + ":" + record +
                                   ",/home/vera/digits:/home/vera/digits," + ddprun + ":" + ddprun + ":ro," + root +
                                   "/lib/ddprun:" + root + "/lib/ddprun:ro," + root + "/share/ddprun:" + root +
                                   "/share/ddprun:ro\n--container-workdir=/home/vera/digits\n" + ddprun +
                                   "\nrun\n--record\n" + record + "\n"));
}

TEST_CASE("a job that enters shifter's image or an OCI bundle itself gets sbatch's options as ever", "[places]") {
  JobDescription job = two_nodes();
  for (const auto& word : SchedulerWords{{"image", "docker:vera/torch:2"},
                                         {"image", "id:1a2b"},
                                         {"container", "/bundle"},
                                         {"container-id", "torch"}}) {
    job.slurm = {word};
    CHECK(slurm_problems(job).empty());
    const std::string script = slurm_script(job, kRecord, "/usr/bin/ddprun");
    CHECK_THAT(script, Contains("#SBATCH --" + word.first + "=" + word.second + "\n"));
    CHECK_THAT(script, Contains("\nsrun \"$ddprun\" run"));
  }
}

TEST_CASE("words about a container that do not fit are refused", "[places]") {
  CHECK(problems_of({{"image", "x.sif"}, {"runtime", "pyxis"}, {"container-name", "a"}}).empty());
  CHECK_THAT(problems_of({{"mounts", "/data:/data"}}).at(0), Contains("no image"));
  CHECK_THAT(problems_of({{"image", "x"}, {"runtime", "podman"}}).at(0), Contains("pyxis or apptainer"));
  CHECK_THAT(problems_of({{"image", "docker://x"}, {"container-name", "a"}}).at(0), Contains("option of pyxis"));
  CHECK_THAT(problems_of({{"image", "x"}, {"ddprun", "/opt/ddprun"}}).at(0), Contains("it takes inside"));
  JobDescription job = two_nodes();
  job.slurm = {{"image", "x"}};
  job.source_dir = "/home/vera/a:b";
  CHECK(slurm_problems(job).size() == 1);
}

TEST_CASE("words of [slurm] that would break the job are refused", "[places]") {
  CHECK(problems_of({{"partition", "gpu"}, {"ntasks-per-node", "1"}, {"signal", "USR1@60"}}).empty());
  for (const char* name :
       {"wrap", "array", "parsable", "output", "ntasks", "chdir", "wait", "open_mode", "test-only"}) {
    INFO(name);
    REQUIRE(problems_of({{name, "2"}}).size() == 1);
  }
  CHECK_THAT(problems_of({{"array", "1-5"}}).at(0), Contains("a job file is one job"));
  CHECK_THAT(problems_of({{"ntasks-per-node", "8"}}).at(0), Contains("nproc-per-node"));
  CHECK_THAT(problems_of({{"signal", "B:TERM@120"}}).at(0), Contains("signal = \"TERM@120\""));
  CHECK_THAT(problems_of({{"p", "gpu"}}).at(0), Contains("long names"));
  CHECK_THAT(problems_of({{"x\n#SBATCH --uid", "0"}}).at(0), Contains("long names"));
  CHECK_THAT(problems_of({{"comment", "a\n#SBATCH --wrap=x"}}).at(0), Contains("line end"));
  JobDescription job = two_nodes();
  job.source_dir = "/home/a\nb";
  CHECK(slurm_problems(job).size() == 1);
}

TEST_CASE("Slurm's time limit leaves room for the job's own end", "[places]") {
  CHECK(time_limit(8h) == "8:04:00");
  CHECK(time_limit(30s) == "0:05:00");
  CHECK(time_limit(25h, {"--stop-grace", "10m"}) == "25:13:00");
  JobDescription unlimited = two_nodes();
  unlimited.max_run.reset();
  CHECK(slurm_time_limit(unlimited).empty());
}

TEST_CASE("scontrol's answer becomes a state", "[places]") {
  const PlaceState running = state_from_scontrol(kRunning).value();
  CHECK(running.phase == Phase::running);
  CHECK(running.where == "host[0-1]");
  CHECK(running.requeues == 2);
  CHECK_FALSE(running.exit_code);
  CHECK(shown("COMPLETED", "0:0").phase == Phase::succeeded);
  CHECK(shown("COMPLETED", "0:0").exit_code == 0);
  CHECK(shown("FAILED", "75:0").phase == Phase::preempted);
  CHECK(shown("FAILED", "93:0").phase == Phase::failed);
  CHECK(shown("FAILED", "93:0").exit_code == 93);
  CHECK(shown("FAILED", "0:9").exit_code == 137);
  CHECK(shown("CANCELLED", "0:15").phase == Phase::stopped);
  CHECK_THAT(shown("TIMEOUT", "143:0").detail, Contains("TIMEOUT"));
  CHECK(shown("NODE_FAIL", "0:0").phase == Phase::failed);
  CHECK(shown("COMPLETING", "0:0").phase == Phase::running);
  CHECK_THAT(shown("SPECIAL_EXIT", "93:0").detail, Contains("scontrol release"));
  CHECK_FALSE(state_from_scontrol("slurm_load_jobs error: Invalid job id specified\n"));
}

TEST_CASE("a job in the queue says why it waits", "[places]") {
  const std::string text = with(with(kRunning, "JobState=RUNNING Reason=None", "JobState=PENDING Reason=Resources"),
                                "NodeList=host[0-1]", "NodeList=");
  const PlaceState state = state_from_scontrol(text).value();
  CHECK(state.phase == Phase::queued);
  CHECK(state.detail == "waiting: Resources");
  CHECK(state.where.empty());
}

TEST_CASE("sacct's last line is the state, and the lines before are requeues", "[places]") {
  const auto states = states_from_sacct(
      "7|REQUEUED|75:0|host0\n8|CANCELLED by 1000|0:0|host0\n7|PREEMPTED|0:0|host1\n9|FAILED|15:0|host0\n"
      "7|COMPLETED|0:0|host2\n10|PENDING|0:0|None assigned\nwhat is this\n");
  const PlaceState& done = states.at("7");
  CHECK(done.phase == Phase::succeeded);
  CHECK(done.requeues == 2);
  CHECK(done.where == "host2");
  CHECK(states.at("8").phase == Phase::stopped);
  CHECK(states.at("9").exit_code == 143);
  CHECK(states.at("10").where.empty());
  CHECK(states.size() == 4);
}

TEST_CASE("the answers about several jobs are told apart, also with prompts before them", "[places]") {
  const auto texts =
      jobs_of_scontrol("scontrol: show job 2\n" + kRunning + "\nscontrol: scontrol: JobId=5 JobName=x\n" +
                       "   JobState=PENDING Reason=None\nscontrol: ");
  REQUIRE(texts.size() == 2);
  CHECK(state_from_scontrol(texts.at("2")).value().phase == Phase::running);
  CHECK(state_from_scontrol(texts.at("5")).value().phase == Phase::queued);
}

TEST_CASE("sbatch's answer is a number, a refusal, or unclear", "[places]") {
  using How = ProgramEnd::How;
  const auto answer = [](const ProgramEnd& end) {
    const SbatchAnswer read = answer_of_sbatch(end);
    return read.refused ? "refused" : read.id.empty() ? "unclear" : read.id;
  };
  CHECK(answer({How::exited, 0, "17\n"}) == "17");
  CHECK(answer({How::exited, 0, "17;east\n"}) == "17;east");
  CHECK(answer({How::exited, 0, "Welcome to the cluster.\n17\nQuota: 3 %\n"}) == "17");
  CHECK(answer({How::too_late, 0, "17\n"}) == "17");  // it told, and then did something else
  CHECK(answer({How::exited, 1, "17\n", "cannot mail\n"}) == "17");
  CHECK(answer({How::exited, 1, "", "sbatch: error: invalid partition specified: nope\n"}) == "refused");
  CHECK(answer({How::exited, 1, "", "sbatch: error: Unable to contact slurm controller (connect failure)\n"}) ==
        "refused");
  CHECK(answer({How::not_found}) == "refused");
  CHECK(answer({How::exited, 1, "", "sbatch: error: Socket timed out on send/recv operation\n"}) == "unclear");
  CHECK(answer({How::exited, 1, "", "sbatch: error: Zero Bytes were transmitted or received\n"}) == "unclear");
  CHECK(answer({How::too_late}) == "unclear");
  CHECK(answer({How::killed, 9}) == "unclear");
  CHECK(answer({How::exited, 0, "Submitted batch job 17\n"}) == "unclear");
}

TEST_CASE("KillWait is read from Slurm's configuration", "[places]") {
  CHECK(kill_wait_from_config("JobRequeue              = 1\nKillWait                = 30 sec\n") == 30);
  CHECK_FALSE(kill_wait_from_config("KillOnBadExit = 0\n"));
}

TEST_CASE("bash reads a quoted word as the same word", "[places]") {
  CHECK(shell_word("/usr/bin/ddprun") == "/usr/bin/ddprun");
  for (const std::string word : {"", "two words", "it's", "$HOME `x` \\", "a\nb", "~", "#1", "*"})
    CHECK(test::run({"bash", "-c", "printf %s " + shell_word(word)}, 10s).out == word);
}

TEST_CASE("words of sbatch are quoted where they have to be", "[places]") {
  CHECK(sbatch_word("[rack1|rack2]") == "[rack1|rack2]");
  CHECK(sbatch_word("a b") == "\"a b\"");
  CHECK(sbatch_word("\"#\\'") == "\"\\\"#\\\\'\"");
  CHECK(sbatch_word("") == "\"\"");
}

// Jobs of DistributedDataParallel that stand still, in C++ with the library, in Python with the worker channel and of
// `train`: the rank to blame and its function are named, on one node and on three.
#include "tests/e2e/hang_job.h"
#include "tests/e2e/programs.h"
#include "tests/support/soak.h"
#include "tests/support/test.h"

namespace {

constexpr auto kDdpLimit = 180s;  // for every wait: to load LibTorch takes seconds, on a busy machine a minute

struct Language {
  std::string name;
  bool patient;  // whoever hangs is ended after a minute, as its phases are inferred
  std::vector<std::string> program;
  std::vector<HangFault> faults;
  Words options = {};
};

const std::string kComputes = "has computed for \\d+\\.\\d s", kLoads = "has waited for data for \\d+\\.\\d s",
                  kStopped = "has been stopped for \\d+\\.\\d s, in compute",
                  kWaits = "has waited in [a-z0-9 ]+ for \\d+\\.\\d s",
                  kHeld = "has (waited for data for \\d+\\.\\d s|been held by the kernel for \\d+\\.\\d s in \\w+)";
const std::string kOthers = "ranks \\d and \\d", kGrads = kOthers + " wait for it in (grads|buffers)";

// `at`: behind a function of the program; the others are on top while a step is skipped, a loader loads, a disk is
// read. `grads`: where those are that wait for the gradients of a rank.
std::vector<HangFault> faults(const std::string& at, const std::string& grads, const std::string& skip_others,
                              const std::string& skip, const std::string& loader, const std::string& disk) {
  return {{"loop", kComputes, grads, "spin_forever" + at},
          {"deadlock", kComputes, grads, "lock_twice" + at},
          {"stop", kStopped, kGrads, "stop_here" + at},
          {"skip", kWaits, skip_others, skip},
          {"load", kLoads, grads, "await_sample" + at},
          {"loader", kLoads, grads, loader},
          {"disk", kHeld, grads, disk}};
}

const Language kCpp = {"C++",
                       false,
                       {programs_folder() + "/hang_ddp"},
                       faults("", kGrads, kOthers + " wait in reduce", "", "JobQueue::next", "")};

// In Python PyTorch's own record tells the call.
const std::string kTensors = " \\[(\\d+|scalar) float32\\]", kInScript = " \\(hang_(ddp|faults)\\.py:\\d+\\)";
const std::string kNotEntered =
    "has not entered (all_reduce|broadcast) #\\d+" + kTensors + ", in which ranks? \\d( and \\d)? waits?";
const std::string kInLoss = ", where " + kOthers + " are in all_reduce #\\d+ of losses \\[scalar float32\\]";
std::vector<HangFault> python_faults() {
  std::vector<HangFault> all =
      faults(kInScript, "it " + kNotEntered,
             "it is in (all_reduce|broadcast) #\\d+" + kTensors +
                 " and has not entered all_reduce #\\d+ of losses \\[scalar float32\\], in which " + kOthers + " wait",
             "train" + kInScript, "train" + kInScript, "read_stuck_file" + kInScript);
  all.push_back({"other", kWaits, "it is in all_gather #\\d+ of losses \\[scalar float32\\]" + kInLoss,
                 "gather_losses" + kInScript});
  all.push_back({"size", kWaits, "it is in all_reduce #\\d+ of losses \\[5 float32\\]" + kInLoss,
                 "sum_another_size" + kInScript});
  all.push_back({"order", kWaits,
                 "it is in all_reduce #\\d+" + kTensors +
                     " and has not entered all_reduce #\\d+ of losses \\[scalar float32\\], in which " + kOthers +
                     " wait",
                 "sum_accuracy" + kInScript});
  // After rank 0's each waits for the one before.
  all.push_back({"message", kWaits,
                 "it is in ((all_reduce|broadcast) #\\d+" + kTensors +
                     "|recv from rank \\d) and has not sent to rank \\d, which waits for that"
                     "(; ranks 0, 1 and 2 wait for one another's messages, and each may have left its own out)?",
                 "(train|pass_on)" + kInScript});
  return all;
}
const Language kPython = {"Python", true, {source_folder() + "/tests/e2e/hang_ddp.py"}, python_faults()};

const Language kUnwatched = {"Python without a line of code", true, kPython.program, kPython.faults, {"--watch=see"}};

std::map<std::string, std::optional<std::string>> ddp_environment() {
  return {{"PYTHON_EXEC", torch_python()}, {"OMP_NUM_THREADS", "1"}};
}

std::vector<HangFault> framework_faults() {
  const std::string at = " \\(hang_(frameworks|faults)\\.py:\\d+\\)",
                    stands = "has (computed|waited for data) for \\d+\\.\\d s";
  const std::string any_call = "[a-z_]+ #\\d+( of \\w+)?( \\[.*\\])?";
  const std::string not_entered = "it has not entered " + any_call + ", in which ranks? \\d( and \\d)? waits?";
  const std::string is_elsewhere = "it is in " + any_call + ", where " + kOthers + " are in " + any_call;
  return {{"loop", stands, not_entered, "spin_forever" + at},
          {"deadlock", stands, not_entered, "lock_twice" + at},
          {"stop", "has been stopped for \\d+\\.\\d s, in (compute|load)", kOthers + " wait for it in \\w+",
           "stop_here" + at},
          {"sleep", stands, not_entered, "sleep_for_long" + at},
          {"other", kWaits, is_elsewhere, "meet_alone" + at},
          {"skip", kWaits, "it is in " + any_call + "(, where .*|, in which .*| and has not entered .*)", ""},
          {"size", kWaits, is_elsewhere, "sum_metric" + at}};
}

// The job then ends, or is ended: one start of Python on each rank is enough.
FindingTimes::Seconds find_in(const Language& language, const HangFault& fault, int nodes, int rank, int step) {
  CAPTURE(language.name, fault.name, nodes, rank, step);
  ThreeRanks job(nodes, joined({{"--max-restarts=0"}, language.options}),
                 joined({language.program, {"200", fault.name, std::to_string(rank), std::to_string(step)}}),
                 ddp_environment());
  if (skipped_if(fault.name == "disk" && !job.stuck.mounted(), "no file system can be mounted here")) return {};
  const auto after = find_hang(job, fault, rank, kDdpLimit);
  if (language.patient && !job.prints(" hangs: ")) {
    for (auto& agent : job.agents) agent->kill(SIGINT);
    for (auto& agent : job.agents) REQUIRE(agent->wait_exit(kDdpLimit) == exited(130));
    return after;
  }
  for (auto& agent : job.agents) REQUIRE(agent->wait_exit(kDdpLimit) == exited(1));
  REQUIRE_THAT(job.all_err(), Matches("[\\s\\S]*class: +hang\n[\\s\\S]*"));
  return after;
}

void find_each(const Language& language, int nodes, const std::vector<std::string>& always) {
  for (const HangFault& fault : language.faults) {
    const bool tried = std::find(always.begin(), always.end(), fault.name) != always.end();
    find_often("hang: " + fault.name + ", DDP in " + language.name + ", 3 ranks on " + on_nodes(nodes) +
                   ": the right rank and function are named",
               always.empty() || tried ? 1 : 0,
               [&](int rank, int step) { return find_in(language, fault, nodes, rank, step); });
  }
}

// A job of each kind of reports, all at once: they sleep most of the time.
void require_no_end(const std::vector<std::string>& pauses) {
  std::map<std::string, ThreeRanks> jobs;
  for (const std::string reports : {"watch", "phases", "none", "--watch"}) {
    const bool unasked = reports == "--watch";
    Words options{"--max-restarts=0", "--nproc-per-node=2"};
    if (unasked) options.push_back(reports);
    jobs.try_emplace(reports, 1, options,
                     joined({{source_folder() + "/tests/e2e/pauses.py", unasked ? "none" : reports}, pauses}),
                     ddp_environment());
  }
  for (auto& [reports, job] : jobs) {
    const Ended ended = job.agents.front()->wait_exit(soaking() ? 20min : kDdpLimit);
    const std::string err = job.all_err();
    CAPTURE(reports, err);
    REQUIRE(ended == exited(0));
    REQUIRE(job.prints("done in round 1\ndone in round 1"));
  }
}

}  // namespace

TEST_CASE("each kind of hang of a C++ program with the library is found, and its rank and function named", "[hang]") {
  find_each(kCpp, 1, {});
}

TEST_CASE("a hang of a C++ program on one of three nodes is found", "[hang]") { find_each(kCpp, 3, {"skip"}); }

// Of what the kernel alone tells, as in C++, there is one.
TEST_CASE("each kind of hang of a Python script is found, and its rank and function named", "[hang]") {
  find_each(kPython, 1, {"loop", "skip", "loader", "disk"});
}

TEST_CASE("each kind of hang of a script without a line of code is found by --watch, and its rank and function named",
          "[hang]") {
  find_each(kUnwatched, 1, {"skip"});
}

TEST_CASE("a hang on one of three nodes is found by --watch", "[hang]") { find_each(kUnwatched, 3, {"size"}); }

TEST_CASE("hangs of frameworks' scripts without a line of code are found by --watch, on one node and on three",
          "[hang]") {
  for (const std::string framework : {"fsdp2", "transformers", "lightning"})
    for (const int nodes : {1, 3}) {
      const Language language{framework,
                              true,
                              {source_folder() + "/tests/e2e/hang_frameworks.py", framework},
                              framework_faults(),
                              {"--watch=see"}};
      find_often("hang: 7 kinds in turn, " + framework + ", 3 ranks on " + on_nodes(nodes) +
                     ": the right rank, collective and function are named",
                 0, [&, turn = 0](int rank, int step) mutable {
                   const std::size_t fault = turn++ % language.faults.size();
                   return find_in(language, language.faults[fault], nodes, rank, step);
                 });
    }
}

TEST_CASE("a hang of a Python script on one of three nodes is found", "[hang]") { find_each(kPython, 3, {"load"}); }

TEST_CASE("a hang of a Python script is ended after a minute", "[hang]") {
  ThreeRanks job(1, {"--max-restarts=0"}, joined({kPython.program, {"200", "deadlock", "1", "20"}}), ddp_environment());
  CHECK(job.agents[0]->wait_exit(kDdpLimit) == exited(1));
  CHECK_THAT(job.all_err(), Matches("[\\s\\S]*rank 1 stands still: it " + kComputes + ", .*lock_twice" + kInScript +
                                    "\\. It is ended after 60 s "
                                    "[\\s\\S]*rank 1 hangs: it has computed for 6\\d\\.\\d s, "
                                    "[\\s\\S]*class: +hang\n[\\s\\S]*--hang-timeout[\\s\\S]*"));
}

TEST_CASE("pauses of every sort on either rank end nobody", "[hang]") { require_no_end({"3"}); }

TEST_CASE("random pauses end nobody", "[hang]") {
  Series(
      "no false end: DDP in Python, 2 ranks, random pauses of 0.5 to 60 s for ten minutes, with watch(), phases, "
      "no reports and --watch: no restart",
      0, 2)
      .run([](std::uint64_t seed) {
        require_no_end({"random", std::to_string(seed), "10"});
      });
}

TEST_CASE("a rank that makes a file for others for more than a minute is not ended", "[hang]") {
  Series("no false end: DDP in Python, 2 ranks, one unpacks for 90 s, the other waits for its file: no restart", 0, 1)
      .run([](std::uint64_t) {
        require_no_end({"file_for_others", "90"});
      });
}

TEST_CASE("a Python script's evaluation or save on one rank takes its time", "[hang]") {
  ThreeRanks job(1, {}, joined({kPython.program, {"40", "inner-evaluate save", "0", "30"}}), ddp_environment());
  job.all_end_well(kDdpLimit);
  CHECK(job.prints("fault\nfault\n"));
  CHECK_FALSE(job.prints("hangs"));
}

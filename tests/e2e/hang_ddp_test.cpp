// Jobs of DistributedDataParallel that stand still, in C++ with the library, in Python with the worker channel and of
// `train`: the rank to blame and its function are named, on one node and on three.
#include <csignal>
#include <random>

#include "tests/e2e/hang_job.h"
#include "tests/e2e/programs.h"
#include "tests/support/catch.h"
#include "tests/support/command.h"
#include "tests/support/places.h"
#include "tests/support/soak.h"

using namespace ddprun::test;
using namespace std::chrono_literals;
using Catch::Matchers::Matches;

namespace {

constexpr auto kDdpLimit = 180s;  // for every wait: to load LibTorch takes seconds, on a busy machine a minute
constexpr int kSoakRuns = 20;

struct DdpFault {
  std::string name;
  std::string sentence;  // of the one to blame
  std::string waits_in;  // the others
  std::string function;  // on top of its stack
};

struct Language {
  std::string name;
  std::vector<std::string> program;
  std::vector<DdpFault> faults;
};

const std::string kGrads = " wait for it in (grads|buffers)";
const std::string kComputes = "has computed for \\d+\\.\\d s", kLoads = "has waited for data for \\d+\\.\\d s",
                  kStopped = "has been stopped for \\d+\\.\\d s, in compute",
                  kWaits = "has waited in (grads|buffers) for \\d+\\.\\d s",
                  kHeld = "has (waited for data for \\d+\\.\\d s|been held by the kernel for \\d+\\.\\d s in \\w+)";

const Language kCpp = {"C++",
                       {programs_folder() + "/hang_ddp"},
                       {{"loop", kComputes, kGrads, "spin_forever"},
                        {"deadlock", kComputes, kGrads, "lock_twice"},
                        {"stop", kStopped, kGrads, "stop_here"},
                        {"skip", kWaits, " wait in reduce", ""},
                        {"load", kLoads, kGrads, "await_sample"},
                        {"loader", kLoads, kGrads, "JobQueue::next"},
                        {"disk", kHeld, kGrads, ""}}};

const Language kPython = {"Python",
                          {source_folder() + "/tests/e2e/hang_ddp.py"},
                          {{"loop", kComputes, kGrads, "spin_forever \\(hang_ddp\\.py:\\d+\\)"},
                           {"deadlock", kComputes, kGrads, "lock_twice \\(hang_ddp\\.py:\\d+\\)"},
                           {"stop", kStopped, kGrads, "stop_here \\(hang_ddp\\.py:\\d+\\)"},
                           {"skip", kWaits, " wait in reduce", "train \\(hang_ddp\\.py:\\d+\\)"},
                           {"load", kLoads, kGrads, "await_sample \\(hang_ddp\\.py:\\d+\\)"},
                           {"loader", kLoads, kGrads, "train \\(hang_ddp\\.py:\\d+\\)"},
                           {"disk", kHeld, kGrads, "read_stuck_file \\(hang_ddp\\.py:\\d+\\)"}}};

std::map<std::string, std::optional<std::string>> ddp_environment() {
  return {{"PYTHON_EXEC", torch_python()},
          {"PYTHONPATH", source_folder() + "/rendezvous/channel"},
          {"OMP_NUM_THREADS", "1"}};
}

std::vector<std::string> program_of(const Language& language, const std::vector<std::string>& arguments) {
  std::vector<std::string> words = language.program;
  words.insert(words.end(), arguments.begin(), arguments.end());
  return words;
}

// How long after the fault it was said. The job then ends: one start of Python on each rank is enough.
std::chrono::duration<double> find_in(const Language& language, const DdpFault& fault, int nodes, int rank, int step) {
  CAPTURE(language.name, fault.name, nodes, rank, step);
  ThreeRanks job(nodes, {"--max-restarts=0"},
                 program_of(language, {"200", fault.name, std::to_string(rank), std::to_string(step)}),
                 ddp_environment());
  if (fault.name == "disk" && !job.stuck.mounted()) {
    WARN("skipped: no file system can be mounted here");
    return {};
  }
  const bool has_fault = eventually([&] { return job.prints("fault\n"); }, kDdpLimit);
  const auto begin = std::chrono::steady_clock::now();
  const std::string err = has_fault ? "" : job.all_err();
  CAPTURE(err);
  REQUIRE(has_fault);
  const std::string hangs = "rank " + std::to_string(rank) + " hangs: it ";
  REQUIRE(eventually([&] { return job.prints(" hangs: it "); }, kDdpLimit));
  const auto after = std::chrono::steady_clock::now() - begin;
  if (fault.name == "disk") job.stuck.answer();
  const std::string top = fault.function.empty() ? "" : "; in .*" + fault.function;
  const std::string expected = hangs + fault.sentence + ", after step \\d+; ranks \\d and \\d" + fault.waits_in;
  REQUIRE_THAT(job.all_err(), Matches("[\\s\\S]*" + expected + ".*" + top + "[\\s\\S]*"));
  for (auto& agent : job.agents) REQUIRE(agent->wait_exit(kDdpLimit) == exited(1));
  REQUIRE_THAT(job.all_err(), Matches("[\\s\\S]*class: +hang\n[\\s\\S]*"));
  return after;
}

std::string on_nodes(int nodes) { return std::to_string(nodes) + (nodes == 1 ? " node" : " nodes"); }

// A row of the table: the fault in a random rank at a random step.
void find_often_in(const Language& language, const DdpFault& fault, int nodes, int runs) {
  FindingTimes times;
  Series series("hang: " + fault.name + ", DDP in " + language.name + ", 3 ranks on " + on_nodes(nodes) +
                    ": the right rank and function are named",
                runs, kSoakRuns);
  series.run(
      [&](std::uint64_t seed) {
        std::mt19937_64 random(seed);
        const int rank = static_cast<int>(random() % ThreeRanks::kRanks);
        const int step = 20 + static_cast<int>(random() % 3) * 10;
        times.add(find_in(language, fault, nodes, rank, step));
      },
      [&] { return times.in_words(); });
}

void find_each(const Language& language, int nodes, const std::vector<std::string>& always) {
  for (const DdpFault& fault : language.faults) {
    const bool tried = std::find(always.begin(), always.end(), fault.name) != always.end();
    find_often_in(language, fault, nodes, always.empty() || tried ? 1 : 0);
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

TEST_CASE("a hang of a Python script on one of three nodes is found", "[hang]") { find_each(kPython, 3, {"load"}); }

TEST_CASE("a C++ program that hung goes on from its snapshot", "[hang]") {
  ThreeRanks job(1, {}, program_of(kCpp, {"60", "deadlock", "1", "45"}), ddp_environment());
  job.all_end_well(kDdpLimit);
  CHECK(has(job.all_err(), "rank 1 (local rank 1) hung"));
  CHECK(has(job.agents[0]->out(), "done in round 2"));
}

TEST_CASE("a save of the library and one that was told take their time", "[hang]") {
  ThreeRanks job(1, {}, program_of(kCpp, {"60", "late-save", "0", "30"}), ddp_environment());
  job.all_end_well(kDdpLimit);
  CHECK(job.prints("fault\n"));
  CHECK_FALSE(job.prints("hangs"));
}

TEST_CASE("a Python script's evaluation or save on one rank takes its time", "[hang]") {
  ThreeRanks job(1, {}, program_of(kPython, {"40", "inner-evaluate save", "0", "30"}), ddp_environment());
  job.all_end_well(kDdpLimit);
  CHECK(job.prints("fault\nfault\n"));
  CHECK_FALSE(job.prints("hangs"));
}

// --watch with trainers: a preempted script has saved by its trainer's own means, and goes on as if nobody had
// disturbed it.
#include <unistd.h>

#include <csignal>
#include <fstream>

#include <nlohmann/json.hpp>

#include "tests/e2e/programs.h"
#include "tests/support/test.h"

namespace {

constexpr auto kTrainerLimit = 240s;  // to load PyTorch and transformers takes seconds, on a busy machine minutes

CommandOptions beside(const TempFolder& folder) {
  return {.env = {{"PYTHON_EXEC", torch_python()}, {"OMP_NUM_THREADS", "1"}, {"HF_HUB_OFFLINE", "1"}},
          .cwd = folder.path()};
}

// Of this test alone: others may run at the same time.
const std::string& job_id() {
  static const std::string id = "trainer-" + std::to_string(getpid());
  return id;
}

Words trainer_job(const Words& options, const Words& words) {
  return joined({{ddprun_program(), "--rdzv-id=" + job_id()},
                 options,
                 {source_folder() + "/tests/e2e/trainer_script.py"},
                 words});
}

std::string module_of(const std::string& kind) { return kind == "lightning" ? "pytorch_lightning" : kind; }

bool no_module(const std::string& kind) {
  const std::string module = module_of(kind);
  const std::string program = "import importlib.util as u, sys; sys.exit(u.find_spec('" + module + "') is None)";
  return skipped_if(run({torch_python(), "-c", program}, kLimit).code != 0,
                    "no " + module + " in .venv (scripts/setup.sh --test)");
}

std::string weights(const Ended& ended) {
  const auto at = ended.out.find("weights ");
  return at == std::string::npos ? "" : ended.out.substr(at, 40);
}

// Stands after as many steps of this run, until the file is gone.
void hold_after(const TempFolder& folder, int steps) { folder.write("hold", std::to_string(steps)); }

void go_on(const TempFolder& folder, Command& job, const std::string& once) {
  job.wait_for_output(once, kTrainerLimit);
  fs::remove(folder / "hold");
}

}  // namespace

TEST_CASE("a trainer's script that --watch watches saves when it is preempted, and resumes with the same weights",
          "[trainers]") {
  const std::string kind = GENERATE("transformers", "lightning", "accelerate");
  const bool soak = std::getenv("DDPRUN_SOAK") != nullptr;
  if (no_module(kind) || (kind == "transformers" && !soak)) return;  // docs_test.cpp has the example of transformers
  INFO(kind);
  const TempFolder calm_folder, folder;
  Command calm(
      trainer_job({"--nproc-per-node=2", "--rdzv-id=calm", "--prefork", "--prefork-import", module_of(kind)}, {kind}),
      beside(calm_folder));  // loaded once, which saves seconds
  for (int kill = 0; kill < (soak ? 10 : 1); ++kill) {
    hold_after(folder, soak ? 3 + 2 * (kill % 4) : 7);
    Command job(trainer_job({"--nproc-per-node=2", "--watch"}, {kind}), beside(folder));
    job.wait_for_output("holds", kTrainerLimit);
    const auto live = nlohmann::json::parse(run({ddprun_program(), "status", job_id(), "--json"}, kLimit).out)["live"];
    if (!soak) CHECK(live["step"] == 7);
    if (kind != "accelerate") CHECK(live["total_steps"] == 120);
    if (kind != "accelerate" && !soak) CHECK(live["loss"].is_number());
    if (kill % 2 == 0)
      job.kill(SIGTERM);
    else  // as Slurm may: to the processes themselves
      for (const char* const rank : {"1", "0"}) ::kill(job.wait_for_process("RANK", rank, kLimit), SIGTERM);
    go_on(folder, job, kill % 2 == 0 ? "stopping the workers" : "taken for a notice");
    const Ended ended = job.wait_exit(kTrainerLimit);
    REQUIRE(ended == exited(75));
    CHECK(count(ended.err, "ddprun: saved after step ") == 1);
    CHECK_FALSE(has(ended.err, "lost"));
    if (soak) std::cout << kind << ": kill " << kill + 1 << ": exit code 75\n";
  }
  const Ended rest = run(trainer_job({"--nproc-per-node=2", "--watch=see"}, {kind}), kTrainerLimit, beside(folder));
  REQUIRE(rest == exited(0));
  const Ended undisturbed = calm.wait_exit(kTrainerLimit);
  REQUIRE(undisturbed == exited(0));
  CHECK(weights(undisturbed).size() == 40);
  CHECK(weights(rest) == weights(undisturbed));
}

TEST_CASE("a trainer's script that cannot save, has its own handler, or is only seen ends by SIGTERM as ever",
          "[trainers]") {
  if (no_module("transformers")) return;
  const auto [watch, word] =
      GENERATE(table<std::string, std::string>({{"act", "unsaved"}, {"act", "handler"}, {"see", "accumulated"}}));
  INFO(watch << " " << word);
  const TempFolder folder;
  hold_after(folder, 6);
  Command job(trainer_job({"--watch=" + watch}, {"transformers", word}), beside(folder));
  job.wait_for_output("holds", kTrainerLimit);
  const auto live = nlohmann::json::parse(run({ddprun_program(), "status", job_id(), "--json"}, kLimit).out)["live"];
  if (word == "accumulated") {
    CHECK(live["step"] == 5);          // the script's callback comes before ours
    CHECK(live["total_steps"] == 60);  // as the trainer counts
    CHECK(live["loss"].is_number());
  }
  job.kill(SIGTERM);
  const Ended ended = job.wait_exit(kTrainerLimit);
  CHECK(ended == exited(143));
  CHECK(has(ended.out, "my handler") == (word == "handler"));
  CHECK_FALSE(fs::exists(folder / "out/checkpoint-6"));
  CHECK_FALSE(has(ended.err, "ddprun: saved"));
}

TEST_CASE("a script that has trained with accelerate and does other work ends by SIGTERM, as ever", "[trainers]") {
  if (no_module("accelerate")) return;
  const TempFolder folder;
  Command job(trainer_job({"--nproc-per-node=2", "--watch", "--stop-grace=200"}, {"accelerate", "longer"}),
              beside(folder));
  job.wait_for_output("trained[^$]*trained", kTrainerLimit);
  job.kill(SIGTERM);
  const Ended ended = job.wait_exit(150s);  // not only by SIGKILL
  CHECK(ended == exited(143));
  CHECK_FALSE(has(ended.err, "ddprun: saved"));
}

// Files of ddprun's own in a file system that does not answer.
#include <nlohmann/json.hpp>

#include "tests/e2e/programs.h"
#include "tests/e2e/stuck_folder.h"
#include "tests/support/test.h"

using Json = nlohmann::json;

TEST_CASE("a round waits for its log folder, and the agent answers meanwhile", "[stuck_files]") {
  StuckFolder stuck;
  if (skipped_if(!stuck.mounted(), "no file system can be mounted here")) return;
  const fs::path run_folder = stuck.folder() / "logs/run";
  fs::create_directories(run_folder);
  fs::create_directory_symlink(stuck.folder() / "stuck/x", run_folder / "round-2");
  Command job(shell_job({"--nproc-per-node=2", "--max-restarts=1", "--rdzv-id=run", "--log-dir=logs"},
                        "echo up $DDPRUN_ROUND; [ $DDPRUN_ROUND = 2 ] || exit 3"),
              {.cwd = stuck.folder()});
  job.wait_for_output("up 1", kLimit);
  const auto round = [] {
    const Json status = Json::parse(run({kDdprun, "status", "--json", "run"}, kLimit).out, nullptr, false);
    return status.is_object() && status.contains("live") ? status["live"].value("round", 0) : 0;
  };
  CHECK(eventually([&] { return round() == 2; }, kLimit));
  CHECK_FALSE(has(job.out(), "up 2"));
  stuck.answer();
  job.wait_for_output("up 2", kLimit);
  CHECK(job.wait_exit(kLimit) == exited(0));
  CHECK(has(job.err(), "cannot make the log folder"));
  CHECK(has(job.err(), "The job goes on without it."));
}

TEST_CASE("a worker's log that cannot be read does not keep the job from a restart", "[stuck_files]") {
  StuckFolder stuck;
  if (skipped_if(!stuck.mounted(), "no file system can be mounted here")) return;
  Command job(shell_job({"--max-restarts=1", "--rdzv-id=run", "--log-dir=logs", "--redirects=3"},
                        "cd logs/run; [ $DDPRUN_ROUND = 2 ] && exec echo up 2; "
                        "mv round-1 before; ln -s ../../stuck/x round-1; exit 3"),
              {.cwd = stuck.folder()});
  const auto log = stuck.folder() / "logs/run/round-2/rank-0/stdout.log";
  CHECK(eventually([&] { return has(read_file(log), "up 2"); }, kLimit));
  stuck.answer();
  CHECK(job.wait_exit(kLimit) == exited(0));
}

TEST_CASE("ddprun exits though the files of its end cannot be written, and says which", "[stuck_files]") {
  StuckFolder stuck;
  if (skipped_if(!stuck.mounted(), "no file system can be mounted here")) return;
  const std::string error_file = stuck.folder() / "stuck/error.json", end_file = stuck.folder() / "stuck/end";
  Command job(shell_job({"--stop-grace=1"}, "exit 3"),
              {.env = {{"TORCHELASTIC_ERROR_FILE", error_file}, {"DDPRUN_END_FILE", end_file}}});
  const Ended ended = job.wait_exit(2 * kLimit);
  CHECK(ended == exited(1));
  const std::string unanswered = ": the file system has not answered for ";
  CHECK(has(ended.err, "TORCHELASTIC_ERROR_FILE " + error_file + unanswered));
  CHECK(has(ended.err, end_file + " (DDPRUN_END_FILE)" + unanswered));
}

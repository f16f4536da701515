// scripts/gpu-check.sh, as far as it goes without a GPU.
#include "tests/e2e/programs.h"
#include "tests/support/test.h"

namespace {

constexpr auto kCheckLimit = 240s;  // its own limits end a step that hangs
const std::string kBuild = fs::path(programs_folder()).parent_path();

Ended gpu_check(std::vector<std::string> words, std::map<std::string, std::optional<std::string>> env = {}) {
  words.insert(words.begin(), {source_folder() + "/scripts/gpu-check.sh", "--build-dir", kBuild});
  env.insert({{"PYTHON_EXEC", torch_python()}, {"TMPDIR", std::nullopt}});
  return run(words, kCheckLimit, {.env = env});
}

std::string result_of(const std::string& step, const std::string& out) {
  std::smatch found;
  return std::regex_search(out, found, std::regex("(ok|failed|skipped) +" + step + " ")) ? found[1].str() : "missing";
}

std::string row_of(const std::string& step, const std::string& table) {
  std::smatch found;
  return std::regex_search(table, found, std::regex("\\| " + step + " \\|[^\n]*")) ? found[0].str() : "missing";
}

// A build whose `train` is this shell script.
std::string build_with(const TempFolder& folder, const std::string& train) {
  fs::create_directory(folder / "bin");
  fs::create_symlink(ddprun_program(), folder / "bin/ddprun");
  folder.write("bin/train", "#!/bin/sh\n" + train, true);
  return folder.path();
}

// It passes the first step, and in its tours waits forever.
std::string build_that_hangs(const TempFolder& folder) {
  return build_with(folder, "case $1 in tour) echo hangs; sleep 1000 ;; esac\necho 'done: 1 epoch'\n");
}

std::vector<std::string> window_of(const std::string& build, const std::string& out, const std::string& budget,
                                   const std::vector<std::string>& steps) {
  const std::string script = source_folder() + "/scripts/gpu-check.sh";
  return joined({{script, "--no-gpu", "--build-dir", build, "--budget", budget, "--out", out}, steps});
}

}  // namespace

TEST_CASE("the check of the GPU path proves without a GPU what needs none, and writes its table") {
  const TempFolder folder;
  const std::vector<std::string> steps{"drives",    "counts", "loads",  "refusals", "virtual-rank",
                                       "same-bits", "bf16",   "resume", "kill",     "tours"};  // and rates, in windows
  const Ended checked = gpu_check(joined({{"--no-gpu", "--output", folder / "table.md", "nccl-error"}, steps}));
  INFO(checked);
  CHECK(checked == exited(0));
  for (const std::string& step : steps) {
    INFO(step);
    CHECK(result_of(step, checked.out) == "ok");
  }
  CHECK(result_of("nccl-error", checked.out) == "skipped");
  CHECK(has(checked.out, "3 GPUs of a stand-in for NVML"));
  CHECK(has(read_file(folder / "table.md"), "| nccl-error | skipped | it takes 1 GPU, here: 0 | 0 |\n"));
}

TEST_CASE("a step of the check that fails ends in one line and stops no other") {
  const TempFolder folder;
  const std::string build = build_with(folder, "echo 'train: out of order' >&2\nexit 1\n");
  const Ended checked =
      run({source_folder() + "/scripts/gpu-check.sh", "--no-gpu", "--build-dir", build, "drives", "loads", "same-bits"},
          kCheckLimit, {.env = {{"TMPDIR", folder.path()}}});
  CHECK(checked == exited(1));
  CHECK(has(checked.out, "failed   loads              train --device cpu fails: train: out of order"));
  CHECK(result_of("drives", checked.out) == "ok");
  CHECK(result_of("same-bits", checked.out) == "failed");
  CHECK(has(checked.err, "gpu-check.sh: what the steps printed is in " + folder.path().string()));
}

TEST_CASE("a window of the check tries two ranks on one device, and has a table and the logs") {
  const TempFolder folder;
  const Ended checked = run(window_of(kBuild, folder / "out", "200",
                                      {"smoke", "counts", "pair-collectives", "pair-same-bits", "pair-kill",
                                       "pair-graph", "rate-resnet18-train"}),
                            kCheckLimit, {.env = {{"PYTHON_EXEC", torch_python()}}, .cwd = folder.path()});
  INFO(checked);
  CHECK(checked == exited(0));
  const std::string table = read_file(folder / "out/table.md");
  for (const char* step : {"smoke", "counts", "pair-collectives", "pair-same-bits", "pair-kill", "rate-resnet18-train"})
    CHECK(row_of(step, table).starts_with("| " + std::string(step) + " | ok | "));
  CHECK(row_of("pair-graph", table) == "| pair-graph | skipped | it takes 1 GPU, here: 0 | 0 |");
  CHECK(has(row_of("pair-kill", table), " ms from kill -9 of one rank to the next step"));
  CHECK(has(run({"tar", "-tzf", folder / "out/logs.tar.gz"}, kLimit).out, "logs/pair-kill.files/kill.1.err\n"));
}

TEST_CASE("a window of the check ends in time, whatever hangs, and leaves no process behind") {
  const TempFolder folder;
  const auto began = std::chrono::steady_clock::now();
  Command command(window_of(build_that_hangs(folder), folder / "out", "20",
                            {"smoke", "pair-collectives", "pair-tours", "pair-same-bits", "rate-resnet18-train"}));
  const Ended checked = command.wait_exit(kCheckLimit);
  INFO(checked);
  CHECK(std::chrono::steady_clock::now() - began < 30s);  // 0.7 s of the 20 are for packing: little on a busy machine
  CHECK(checked == exited(1));
  const std::string table = read_file(folder / "out/table.md");
  CHECK(row_of("smoke", table).starts_with("| smoke | ok | "));
  CHECK(has(row_of("pair-collectives", table), "| failed | ended after "));
  CHECK(has(row_of("pair-tours", table), "| failed | ended after "));
  CHECK(command.all_gone(5s));
}

TEST_CASE("a window of the check that is ended has its table and logs") {
  const TempFolder folder;
  Command command(
      window_of(build_that_hangs(folder), folder / "out", "60", {"smoke", "pair-collectives", "pair-tours"}));
  const std::string mark = "gpu-check." + std::to_string(command.pid()) + ".pair-collectives";
  command.wait_for_process("GPU_CHECK_MARK", mark, kLimit);
  command.kill(SIGTERM);
  CHECK(command.wait_exit(kLimit) == exited(143));
  CHECK(has(read_file(folder / "out/table.md"), " | failed | the check was ended while it ran; last: "));
  CHECK(run({"tar", "-tzf", folder / "out/logs.tar.gz"}, kLimit) == exited(0));
  CHECK(command.all_gone(5s));
}

TEST_CASE("a second window of the check repeats what failed in the first, or had no time") {
  const TempFolder folder;
  folder.write(
      "first.md",
      "| pair-graph | failed | other weights | 7 |\n| pair-resume | ok | | 3 |\n| rate-gpt-train | failed | | 3 |\n"
      "| pair-tours | skipped | no time left | 0 |\n| fp16 | skipped | it takes 1 GPU, here: 0 | 0 |\n");
  const Ended listed = run({source_folder() + "/scripts/gpu-check.sh", "--budget", "290", "--window", "2", "--again",
                            folder / "first.md", "--list"},
                           kLimit);
  CHECK(listed == exited(0));
  CHECK(has(listed.out, "gpu-tests-2\npair-graph\npair-tours\nrate-resnet50-python\n"));
  CHECK(has(listed.out, "rate-resnet50-train-fast\nrate-gpt-train\nsmall-digits-train\n"));
  CHECK_FALSE(has(listed.out, "pair-resume"));
  CHECK_FALSE(has(listed.out, "fp16"));
}

TEST_CASE("the phases of each window are within its budget, and those that docs/internals/gpu-run.md shows") {
  const std::string page = read_file(source_folder() + "/docs/internals/gpu-run.md");
  for (const std::string window : {"1", "2"}) {
    const Ended limits =
        run({source_folder() + "/scripts/gpu-check.sh", "--limits", "--budget", "290", "--window", window}, kLimit);
    CHECK(limits == exited(0));
    CHECK(has(limits.out, "\npacking      until 290.000 s\n"));
    const std::regex phase("([a-z-]+) +until ([0-9]+)\\.000 s, ");
    for (std::sregex_iterator at(limits.out.begin(), limits.out.end(), phase), end; at != end; ++at)
      CHECK(has(page, "| " + window + " | " + at->str(1) + " | " + at->str(2) + " s |"));
  }
}

TEST_CASE("the check of the GPU path refuses what it cannot try, in one sentence") {
  const auto refused = [](const std::vector<std::string>& words, const std::string& sentence) {
    const Ended ended = gpu_check(words, {{"CUDA_VISIBLE_DEVICES", ""}});
    CHECK(ended == exited(2));
    CHECK(ended.out == "");
    CHECK(ended.err.starts_with("gpu-check.sh: " + sentence));
  };
  refused({}, "this machine shows no NVIDIA GPU: ");
  refused({"--no-gpu", "wonders"}, "there is no step wonders; --list names the steps.\n");
  refused({"--no-gpu", "--build"}, "--build needs --kit DIR; ");
  refused({"--no-gpu", "--kit", "/tmp"}, "/tmp is no kit (no kit.txt there): ");
  refused({"--no-gpu", "--build-dir", "/tmp"}, "there is no /tmp/bin/ddprun: ");
  refused({"--output"}, "--output takes a path.\n");
  refused({"--no-gpu", "--budget", "soon"}, "--budget takes seconds, 10 to 9999, not soon.\n");
  refused({"--no-gpu", "--budget", "60"}, "--budget needs --out DIR, ");
  refused({"--no-gpu", "--budget", "60", "--out", "/tmp", "tours", "resume-all"}, "there is no step resume-all; ");
  refused({"--no-gpu", "--out", "/tmp"}, "--out, --window and --again need --budget SECONDS.\n");
}

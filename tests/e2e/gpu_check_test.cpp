// scripts/gpu-check.sh, as far as it goes without a GPU.
#include <filesystem>
#include <regex>

#include "tests/e2e/programs.h"
#include "tests/support/catch.h"
#include "tests/support/command.h"

using namespace ddprun::test;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

constexpr auto kCheckLimit = 240s;  // its own limits end a step that hangs
const std::string kBuild = fs::path(DDPRUN_BIN_DIR).parent_path();

Ended gpu_check(std::vector<std::string> words, std::map<std::string, std::optional<std::string>> env = {}) {
  words.insert(words.begin(), {DDPRUN_SOURCE_DIR "/scripts/gpu-check.sh", "--build-dir", kBuild});
  env.insert({{"PYTHON_EXEC", torch_python()}, {"TMPDIR", std::nullopt}});
  return run(words, kCheckLimit, {.env = env});
}

std::string result_of(const std::string& step, const std::string& out) {
  std::smatch found;
  return std::regex_search(out, found, std::regex("(ok|failed|skipped) +" + step + " ")) ? found[1].str() : "missing";
}

}  // namespace

TEST_CASE("the check of the GPU path proves without a GPU what needs none, and writes its table") {
  const TempFolder folder;
  const Ended checked = gpu_check({"--no-gpu", "--output", folder / "table.md"});
  INFO(checked);
  CHECK(checked == exited(0));
  for (const char* step : {"drives", "counts", "loads", "refusals", "virtual-rank", "same-bits", "bf16", "resume",
                           "kill", "tours", "rate-resnet18"}) {
    INFO(step);
    CHECK(result_of(step, checked.out) == "ok");
  }
  CHECK(result_of("nccl-error", checked.out) == "skipped");
  CHECK(has(checked.out, "3 GPUs of a stand-in for NVML"));
  CHECK(has(read_file(folder / "table.md"), "| nccl-error | skipped | it takes 1 GPU, here: 0 | 0 |\n"));
}

TEST_CASE("a step of the check that fails ends in one line and stops no other") {
  const TempFolder folder;
  fs::create_directory(folder / "bin");
  fs::create_symlink(ddprun_program(), folder / "bin/ddprun");
  folder.write("bin/train", "#!/bin/sh\necho 'train: out of order' >&2\nexit 1\n", true);
  const Ended checked = run({DDPRUN_SOURCE_DIR "/scripts/gpu-check.sh", "--no-gpu", "--build-dir", folder.path(),
                             "drives", "loads", "same-bits"},
                            kCheckLimit, {.env = {{"TMPDIR", folder.path()}}});
  CHECK(checked == exited(1));
  CHECK(has(checked.out, "failed   loads              train --device cpu fails: train: out of order"));
  CHECK(result_of("drives", checked.out) == "ok");
  CHECK(result_of("same-bits", checked.out) == "failed");
  CHECK(has(checked.err, "gpu-check.sh: what the steps printed is in " + folder.path().string()));
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
}

// The tree that `cmake --install` makes, away from source and build.
#include <filesystem>

#include "tests/support/catch.h"
#include "tests/support/command.h"

using namespace ddprun::test;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

TEST_CASE("an installed tree trains, with its manual, completions and the channel's files beside it") {
  const TempFolder folder;
  const std::string tree = folder / "tree";
  REQUIRE(run({"cmake", "--install", DDPRUN_BIN_DIR "/..", "--prefix", tree}, 60s) == exited(0));
  for (const char* file :
       {"share/man/man1/ddprun.1", "share/bash-completion/completions/ddprun", "share/zsh/site-functions/_ddprun",
        "lib/ddprun/libddprun_tls.so", "include/ddprun/worker_channel.h", "share/ddprun/worker_channel.py"}) {
    INFO(file);
    CHECK(fs::exists(fs::path(tree) / file));
  }
  const Ended trained = run({tree + "/bin/ddprun", "--nproc_per_node=2", "train", "1", "1"}, 60s,
                            {.env = {{"PATH", "/usr/bin:/bin"}}, .cwd = folder.path()});
  CHECK(trained == exited(0));
  CHECK(trained.out.find("accuracy") != std::string::npos);
}

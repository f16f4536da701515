// Tests the tree that `cmake --install` makes, without source and build folder.
#include "tests/e2e/page_run.h"
#include "tests/support/test.h"

TEST_CASE("an installed tree trains, with its manual, completions and the channel's files beside it") {
  const TempFolder folder;
  const std::string tree = folder / "tree";
  const Ended installed = run({"cmake", "--install", programs_folder() + "/..", "--prefix", tree}, 60s);
  REQUIRE(installed == exited(0));
  CHECK(std::regex_search(installed.out,
                          std::regex("train and the library need LibTorch 2[.0-9]+: they take it from /")));
  for (const char* file :
       {"share/man/man1/ddprun.1", "share/bash-completion/completions/ddprun", "share/zsh/site-functions/_ddprun",
        "lib/ddprun/libddprun_channel.so", "lib/ddprun/libddprun_tls.so", "include/ddprun/worker_channel.h",
        "share/ddprun/worker_channel.py", "share/ddprun/python/ddprun/channel.py",
        "share/ddprun/python/ddprun/_pytorch.py", "share/ddprun/monitoring/ddprun-alerts.yaml",
        "share/ddprun/monitoring/ddprun-grafana.json"}) {
    INFO(file);
    CHECK(fs::exists(fs::path(tree) / file));
  }
  const std::string stacks = "lib/ddprun/libddprun_stacks.so";  // built where libdw is
  CHECK(fs::exists(fs::path(tree) / stacks) == fs::exists(programs_folder() + "/../" + stacks));
  const Ended trained = run({tree + "/bin/ddprun", "--nproc_per_node=2", "train", "1", "1"}, 60s,
                            {.env = {{"PATH", "/usr/bin:/bin"}}, .cwd = folder.path()});
  CHECK(trained == exited(0));
  CHECK(trained.out.find("accuracy") != std::string::npos);
}

TEST_CASE("the train of a package says in one sentence where it looked for LibTorch") {
  const TempFolder folder;
  const fs::path config = folder / "torch/share/cmake/Torch";
  fs::create_directories(config);
  std::ofstream(config / "TorchConfigVersion.cmake") << "set(PACKAGE_VERSION \"1.13.1\")\n";
  const Ended refused =
      run({programs_folder() + "/start/train"}, 20s, {.env = {{"DDPRUN_TORCH_DIR", (folder / "torch").string()}}});
  CHECK(refused == exited(2));
  CHECK(refused.err.find("train: cannot find LibTorch 2.") == 0);
  CHECK(refused.err.find((folder / "torch").string() + " has 1.13.1. Install it") != std::string::npos);
}

TEST_CASE("the library exports the functions of its public headers, and nothing of what it is made of") {
  const Ended names = run({"nm", "-DC", "--defined-only", programs_folder() + "/../lib/libddprun_ddp.so"}, 60s);
  REQUIRE(names == exited(0));
  int functions = 0;
  for (const std::string& line : lines_of(names.out)) {
    CAPTURE(line);
    CHECK(line.find("ddprun::rendezvous") == std::string::npos);
    const auto function = line.find(" T ");
    if (function == std::string::npos) continue;
    CHECK(line.compare(function + 3, 8, "ddprun::") == 0);
    ++functions;
  }
  CHECK(functions > 50);
}

TEST_CASE("examples/cpp-library builds on the installed library and does what its README says, as launch() does") {
  const TempFolder tree, folder;
  REQUIRE(run({"cmake", "--install", programs_folder() + "/..", "--prefix", tree.path()}, 60s) == exited(0));
  copy_example("cpp-library", folder);
  // A program that starts ddprun on itself, in the same project: to configure another one takes seconds.
  std::ofstream(folder / "CMakeLists.txt", std::ios::app)
      << "add_executable(own_launch " << source_folder() << "/tests/e2e/own_launch.cpp)\n"
      << "target_link_libraries(own_launch PRIVATE ddprun::ddp)\n";
  CommandOptions reader = reader_in(folder);
  reader.env["PATH"] = (tree / "bin").string() + ":/usr/bin:/bin";
  reader.env["CMAKE_PREFIX_PATH"] = tree.path();
  if (run({"sh", "-c", "command -v ccache"}, 60s) == exited(0)) {  // LibTorch's headers take minutes
    reader.env["CMAKE_CXX_COMPILER_LAUNCHER"] = "ccache";
    reader.env["CCACHE_BASEDIR"] = folder.path();
    reader.env["CCACHE_NOHASHDIR"] = "1";
  }
  const std::vector<Block> blocks = blocks_of_example("cpp-library");
  run_blocks("cpp-library", blocks, reader);
  try_dry("cpp-library", blocks, folder);
  const std::string printed = read_file(folder / "run.log");
  int from = 0;
  double bias = 0;
  REQUIRE(std::sscanf(printed.c_str() + printed.rfind("from epoch "), "from epoch %d", &from) == 1);
  CHECK(from >= 3);  // epoch 5 is printed before it is saved, and 4 may not be written yet
  REQUIRE(std::sscanf(printed.c_str() + printed.find("[{"), "[{\"bias\":%lf,\"rank\":0},", &bias) == 1);
  CHECK(std::abs(bias + 1) < 0.01);
  const Ended launched = run({folder / "build/own_launch"}, 60s, {.env = {{"PATH", "/usr/bin:/bin"}}});
  CHECK(launched == exited(0));
  CHECK(launched.out == "{\"question\":\"how many?\",\"world\":\"2\"}\n");
}

namespace {

// Runs find_package for a project that needs this component.
Ended configure(const TempFolder& folder, const std::string& component, const std::vector<std::string>& more = {}) {
  const std::string tree = folder / "tree";
  REQUIRE(run({"cmake", "--install", programs_folder() + "/..", "--prefix", tree}, 60s) == exited(0));
  std::ofstream(folder / "CMakeLists.txt") << "cmake_minimum_required(VERSION 3.24)\nproject(p LANGUAGES CXX)\n"
                                              "find_package(ddprun REQUIRED COMPONENTS "
                                           << component << ")\n";
  std::vector<std::string> words{"cmake", "-S", folder.path(), "-B", folder / "build", "-DCMAKE_PREFIX_PATH=" + tree};
  words.insert(words.end(), more.begin(), more.end());
  return run(words, 60s);
}

}  // namespace

TEST_CASE("a component that the installed package does not have is named") {
  const TempFolder folder;
  const Ended configured = configure(folder, "dpp");
  CHECK(configured == exited(1));
  CHECK(configured.err.find("ddprun has no component 'dpp': there is ddp.") != std::string::npos);
}

TEST_CASE("another LibTorch than the one it was built with is refused, with both versions") {
  const TempFolder folder;
  const fs::path other = folder / "torch", config = other / "share/cmake/Torch";
  fs::create_directories(config);
  std::ofstream(config / "TorchConfig.cmake") << "add_library(torch_cpu_library INTERFACE IMPORTED GLOBAL)\n";
  std::ofstream(config / "TorchConfigVersion.cmake")
      << "set(PACKAGE_VERSION 1.13.1)\nset(PACKAGE_VERSION_COMPATIBLE TRUE)\n";
  const Ended configured = configure(folder, "ddp", {"-DDDPRUN_TORCH_DIR=" + other.string()});
  CHECK(configured == exited(1));
  std::string said = configured.err;  // CMake breaks the lines
  said = std::regex_replace(said, std::regex("\\s+"), " ");
  CAPTURE(said);
  CHECK(said.find("ddprun was built with LibTorch 2.") != std::string::npos);
  CHECK(said.find(", but " + other.string() + " has 1.13.1: pass") != std::string::npos);
}

// The Debian packages, in a folder of their own, and the kit for machines with GPUs.
#include "tests/e2e/packages.h"
#include "tests/support/soak.h"

namespace {

// A Debian system that has nothing but the packages installed into it.
class BareSystem {
 public:
  BareSystem() {
    for (const char* name : {"root", "state/info", "state/updates"}) fs::create_directories(folder_ / name);
    folder_.write("state/status", "");
    folder_.write("state/available", "");
  }
  Ended dpkg(std::vector<std::string> words) const {
    words.insert(words.begin(), {"dpkg", "--admindir=" + (folder_ / "state").string(), "--instdir=" + root(),
                                 "--log=/dev/null", "--force-depends", "--force-not-root"});
    return run(words, 60s, {.env = {{"PATH", kSearched}}});
  }
  std::string root() const { return folder_ / "root"; }

 private:
  TempFolder folder_;
};

}  // namespace

TEST_CASE("the Debian package of the launcher is without fault, runs jobs, and is removed without a trace") {
  if (run({"sh", "-c", "command -v dpkg-deb"}, kLimit) != exited(0)) {
    WARN("skipped: this is no Debian");
    return;
  }
  const TempFolder folder;
  const std::vector<fs::path> debs =
      packages("deb", folder / "debs", {"--without-train"});  // lintian has looked at them
  REQUIRE(debs.size() == 1);
  const BareSystem system;
  REQUIRE(system.dpkg({"--install", debs[0]}) == exited(0));
  folder.write("job.py", kScript);
  const CommandOptions bare{.env = {{"PATH", kSearched}, {"PYTHON_EXEC", std::nullopt}}, .cwd = folder.path()};
  const std::string ddprun = system.root() + "/usr/bin/ddprun";
  const std::vector<std::string> both{"rank 0 by /usr/bin/python3", "rank 1 by /usr/bin/python3"};
  CHECK(sorted_lines(run({ddprun, "--nproc-per-node=2", "job.py"}, kLimit, bare).out) == both);
  fs::permissions(folder.write("token", run({ddprun, "--make-token"}, kLimit, bare).out), fs::perms::owner_read);
  CHECK(sorted_lines(run({ddprun, "--nproc-per-node=2", "--token-file=token", "job.py"}, kLimit, bare).out) == both);
  for (const char* file : {"share/man/man1/ddprun.1.gz", "share/bash-completion/completions/ddprun",
                           "share/zsh/vendor-completions/_ddprun", "share/doc/ddprun/ddprun.cdx.json"}) {
    INFO(file);
    CHECK(fs::exists(system.root() + "/usr/" + file));
  }
  const TempFolder project;
  const Ended configured = configure(project, system.root() + "/usr", "");
  CHECK(configured == exited(0));
  CHECK(has(configured.out, "launcher: " + ddprun + "\n"));
  REQUIRE(system.dpkg({"--purge", "ddprun"}) == exited(0));
  CHECK(fs::is_empty(system.root()));
}

TEST_CASE("both Debian packages train with a LibTorch of their version, and say where they looked for it") {
  if (!soaking()) {  // compiles the trainer once more
    WARN("skipped: only with DDPRUN_SOAK=1");
    return;
  }
  const TempFolder folder;
  const std::vector<fs::path> debs = packages("deb", folder / "debs", {});
  REQUIRE(debs.size() == 2);
  const BareSystem system;
  REQUIRE(system.dpkg({"--install", debs[0], debs[1]}) == exited(0));
  const std::string programs = system.root() + "/usr/bin", venv = fs::path(torch_python()).parent_path().parent_path();
  const auto train = [&](const std::string& environment) {
    return run({programs + "/ddprun", "--nproc-per-node=2", "train", "1", "1"}, 60s,
               {.env = {{"PATH", programs + ":" + kSearched},
                        {"VIRTUAL_ENV", environment},
                        {"CONDA_PREFIX", std::nullopt},
                        {"DDPRUN_TORCH_DIR", std::nullopt}},
                .cwd = folder.path()});
  };
  const Ended refused = train("/nowhere");
  CHECK(refused.code != 0);
  CHECK(has(refused.err, "train: cannot find LibTorch 2."));
  CHECK(has(refused.err, "none is in /nowhere/lib/python3*/site-packages/torch, none is in /opt/libtorch"));
  const Ended trained = train(venv);
  CHECK(trained == exited(0));
  CHECK(has(trained.out, "accuracy"));
  const Ended configured = configure(TempFolder(), system.root() + "/usr", "COMPONENTS ddp");
  CHECK(configured == exited(1));
  CHECK(has(configured.err, "ddprun needs LibTorch 2."));
  REQUIRE(system.dpkg({"--purge", "ddprun-train", "ddprun"}) == exited(0));
  CHECK(fs::is_empty(system.root()));
}

namespace {

// A system without the headers that the project needs, and without the network.
Ended in_bare_system(const std::string& script, const std::vector<std::string>& words) {
  static const std::string kHide =
      "for folder in nlohmann spdlog fmt CLI asio toml++ openssl catch2; do mount -t tmpfs none /usr/include/$folder; "
      "done\n"
      "for file in asio.hpp zlib.h pcre2.h; do mount --bind /dev/null /usr/include/$file; done\n"
      "mount -t tmpfs none /usr/lib/$(gcc -print-multiarch)/cmake\n";
  return run(joined({{"unshare", "--mount", "--net", "sh", "-ec", kHide + script, "sh"}, words}),
             soaking() ? 2 * kBuildLimit : kBuildLimit,
             {.env = {{"PATH", kSearched}, {"CMAKE_PREFIX_PATH", std::nullopt}}});
}

}  // namespace

TEST_CASE("the kit for GPUs runs where it is unpacked, and its sources are built without a header of the system") {
  if (skipped_if(::geteuid() != 0, "only as root")) return;
  const TempFolder folder;
  const std::vector<fs::path> made = packages("gpu-kit", folder / "kits");
  REQUIRE(made.size() == 1);
  CHECK(fs::file_size(made[0]) <= 40 << 20);
  REQUIRE(run({"tar", "-C", folder.path(), "-xzf", made[0]}, kBuildLimit) == exited(0));
  const std::string kit = folder / made[0].stem().stem().string();
  const CommandOptions bare{.env = {{"PATH", kSearched}, {"PYTHON_EXEC", torch_python()}}, .cwd = folder.path()};
  const Ended checked = run({kit + "/gpu-check.sh", "--no-gpu", "--budget", "200", "--out", folder / "out", "smoke",
                             "counts", "loads", "same-bits", "pair-collectives", "pair-every-collective", "pair-kill"},
                            kBuildLimit, bare);
  CHECK(checked == exited(0));
  for (const char* step :
       {"smoke", "counts", "loads", "same-bits", "pair-collectives", "pair-every-collective", "pair-kill"}) {
    INFO(step);
    CHECK(has(read_file(folder / "out/table.md"), "| " + std::string(step) + " | ok | "));
  }

  const std::string torch =
      run({torch_python(), "-c",
           "import importlib.util as u; print(end=u.find_spec('torch').submodule_search_locations[0])"},
          kLimit)
          .out;
  if (soaking()) {
    const Ended built =
        in_bare_system("PYTHON_EXEC=\"$2\" \"$1/gpu-check.sh\" --build --no-gpu", {kit, torch_python()});
    CHECK(built == exited(0));
    return;
  }
  folder.write("all.cpp",
               "#include <openssl/ssl.h>\n#include <pcre2.h>\n#include <spdlog/spdlog.h>\n#include <toml++/toml.h>\n"
               "#include <zlib.h>\n\n#include <CLI/CLI.hpp>\n#include <asio.hpp>\n#include <catch2/catch.hpp>\n"
               "#include <nlohmann/json.hpp>\n");
  const Ended configured = in_bare_system(
      "cmake -S \"$1/source\" -B \"$1/built\" -G Ninja -C \"$1/deps/kit.cmake\" -DDDPRUN_TORCH_DIR=\"$2\" "
      "-DDDPRUN_TESTS_FOR_GPU=ON\n"
      "g++ -std=c++20 -fsyntax-only -I \"$1/deps/include\" -DSPDLOG_FMT_EXTERNAL -DPCRE2_CODE_UNIT_WIDTH=8 \"$3\"",
      {kit, torch, folder / "all.cpp"});
  CHECK(configured == exited(0));
}

TEST_CASE("the kit for GPUs says for which LibTorch it is") {
  const TempFolder folder;
  folder.write("kit.txt", "commit abc\ntorch 1.13.1+cu117\n");
  const Ended refused = run({source_folder() + "/scripts/gpu-check.sh", "--no-gpu", "--kit", folder.path()}, kLimit,
                            {.env = {{"PYTHON_EXEC", torch_python()}}});
  CHECK(refused == exited(2));
  CHECK(has(refused.err, "the kit's programs are for torch 1.13.1+cu117, and "));
  CHECK(has(refused.err, ": pass --build, "));
}

TEST_CASE("the Debian package of the launcher is installed and removed by apt in a new Debian") {
  if (skipped_if(!soaking() || ::geteuid() != 0, "only with DDPRUN_SOAK=1, as root")) return;
  const TempFolder folder;
  const std::vector<fs::path> debs = packages("deb", folder / "debs", {"--without-train"});
  const std::string root = folder / "debian";
  REQUIRE(run({"debootstrap", "--variant=minbase", "bookworm", root}, kBuildLimit) == exited(0));
  const auto inside = [&](const std::string& command) {
    return run({"unshare", "--mount", "--pid", "--fork", "sh", "-c",
                "mount --bind /dev \"$0/dev\" && mount -t proc proc \"$0/proc\" && exec chroot \"$0\" sh -ec \"$1\"",
                root, command},
               kBuildLimit, {.env = {{"PATH", kSearched}, {"DEBIAN_FRONTEND", "noninteractive"}, {"LC_ALL", "C"}}});
  };
  fs::copy_file("/etc/resolv.conf", root + "/etc/resolv.conf", fs::copy_options::overwrite_existing);
  fs::copy_file(debs.at(0), root + "/ddprun.deb");
  std::ofstream(root + "/job.py") << kScript;
  const std::string list = "find / -xdev -path /var -prune -o -path /proc -prune -o -path /tmp -prune -o -print | sort";
  REQUIRE(inside("apt-get update && apt-get install -y --no-install-recommends python3-minimal libdw1 libssl3") ==
          exited(0));
  const std::string before = inside(list).out;
  REQUIRE(inside("apt-get install -y --no-install-recommends /ddprun.deb") == exited(0));
  CHECK(sorted_lines(inside("ddprun --nproc-per-node=2 /job.py").out) ==
        std::vector<std::string>{"rank 0 by /usr/bin/python3", "rank 1 by /usr/bin/python3"});
  REQUIRE(inside("apt-get purge -y ddprun") == exited(0));
  CHECK(inside(list).out == before);
}

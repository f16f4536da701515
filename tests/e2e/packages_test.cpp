// What users install: the wheel in a bare virtual environment, the Debian packages in a folder of their own.
#include "tests/e2e/programs.h"
#include "tests/support/soak.h"
#include "tests/support/test.h"

namespace {

constexpr std::chrono::minutes kBuildLimit{
    20};  // most of it is waiting for a processor, where ccache holds nothing yet
constexpr const char* kSearched = "/usr/sbin:/usr/bin:/sbin:/bin";
// One write for each line: both ranks have the same stdout.
constexpr const char* kScript =
    "import os, sys\n"
    "os.write(1, f\"rank {os.environ['RANK']} by {sys.executable}\\n\".encode())\n";

// Builds packages of a kind into a folder.
std::vector<fs::path> packages(const std::string& kind, const fs::path& folder, std::vector<std::string> options = {}) {
  options.insert(options.begin(), {source_folder() + "/scripts/package.sh", kind, "--output", folder.string()});
  const Ended built = run(options, kBuildLimit);
  REQUIRE(built == exited(0));
  std::vector<fs::path> out;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) out.push_back(entry.path());
  std::sort(out.begin(), out.end());
  return out;
}

std::set<std::string> files_below(const fs::path& folder) {
  std::set<std::string> out;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder))
    if (!entry.is_directory()) out.insert(entry.path());  // pip leaves some empty folders
  return out;
}

// A new project that needs ddprun's package for CMake, with further words for find_package.
Ended configure(const TempFolder& folder, const std::string& prefix, const std::string& components) {
  folder.write("main.cpp", "#include \"ddprun/worker_channel.h\"\nint main() {}\n");
  folder.write("CMakeLists.txt",
               "cmake_minimum_required(VERSION 3.24)\nproject(p LANGUAGES CXX)\nfind_package(ddprun 0.1 REQUIRED " +
                   components +
                   ")\nmessage(STATUS \"launcher: ${ddprun_EXECUTABLE}\")\nadd_executable(p main.cpp)\n"
                   "target_link_libraries(p ddprun::channel)\n");
  return run({"cmake", "-S", folder.path(), "-B", folder / "build", "-DCMAKE_PREFIX_PATH=" + prefix}, 60s);
}

}  // namespace

namespace {

constexpr std::uintmax_t kWheelBytesMax = 8 << 20;

// The greatest GLIBC_x.y of the dynamic symbols of every ELF file below the folder.
std::string glibc_needed(const fs::path& folder) {
  return run({"sh", "-c",
              "find \"$0\" -type f | while read -r file; do\n"
              "  if [ \"$(head -c 4 \"$file\" | tail -c 3)\" = ELF ]; then readelf --dyn-syms --wide \"$file\"; fi\n"
              "done 2>/dev/null | grep -o '@GLIBC_[0-9.]*' | sort -uV | tail -n 1",
              folder.string()},
             kLimit)
      .out;
}

// Installs a wheel into a bare environment, uses what is in it, and removes it again.
void use_wheel(const fs::path& wheel, const std::vector<std::pair<std::string, std::string>>& bundled) {
  const TempFolder folder;
  const std::string venv = folder / "venv", ddprun = venv + "/bin/ddprun";
  REQUIRE(run({"/usr/bin/python3", "-m", "venv", venv}, 60s) == exited(0));
  const auto pip = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {venv + "/bin/python", "-m", "pip"});
    return run(words, 60s, {.env = {{"PYTHONDONTWRITEBYTECODE", "1"}}});
  };
  const std::set<std::string> before = files_below(venv);
  REQUIRE(pip({"install", "--no-index", "--no-deps", wheel}) == exited(0));

  // Another python3 comes first in PATH, as where the environment is not active.
  fs::create_directory(folder / "path");
  folder.write("path/python3", "#!/bin/sh\necho the wrong Python\n", true);
  folder.write("job.py", kScript);
  const CommandOptions bare{
      .env = {{"PATH", (folder / "path").string() + ":" + kSearched}, {"PYTHON_EXEC", std::nullopt}},
      .cwd = folder.path()};
  const std::string python = venv + "/bin/python3";
  const std::vector<std::string> both{"rank 0 by " + python, "rank 1 by " + python};
  const Ended job = run({ddprun, "--nproc-per-node=2", "job.py"}, kLimit, bare);
  CHECK(job == exited(0));
  CHECK(sorted_lines(job.out) == both);
  CHECK(has(run({ddprun, "--print-config", "job.py"}, kLimit, bare).out,
            "# Python: " + python + ", of the virtual environment that ddprun is in.\n"));
  CHECK(has(run({ddprun, "--dry-run", "job.py"}, kLimit, bare).out, "Python: " + python + ", of the virtual"));
  const Ended module = run({python, "-m", "ddprun", "--nproc-per-node=2", "job.py"}, kLimit, bare);
  CHECK(sorted_lines(module.out) == both);

  // With a token the module for TLS is opened; both modules get their libraries from the wheel.
  fs::permissions(folder.write("token", run({ddprun, "--make-token"}, kLimit, bare).out), fs::perms::owner_read);
  CHECK(sorted_lines(run({ddprun, "--nproc-per-node=2", "--token-file=token", "job.py"}, kLimit, bare).out) == both);
  const std::string modules = venv + "/lib/ddprun/";
  for (const char* name : {"tls", "stacks"}) {
    const Ended libraries = run({"ldd", "-r", modules + "libddprun_" + name + ".so"}, kLimit);
    CHECK(libraries == exited(0));
    CHECK(libraries.err.empty());  // no symbol is missing
    CHECK_FALSE(has(libraries.out, "not found"));
    for (const auto& [of, library] : bundled)
      if (of == name) CHECK(has(libraries.out, fs::path(modules) / library));
  }

  CHECK(has(run({ddprun, "--help"}, kLimit, bare).out, "--nproc-per-node"));
  CHECK(has(run({"man", "-l", venv + "/share/man/man1/ddprun.1"}, kLimit, {.env = {{"MANPAGER", "cat"}}}).out,
            "--nproc-per-node"));
  CHECK(fs::exists(venv + "/share/bash-completion/completions/ddprun"));
  CHECK(run({python, "-B", "-c", "import ddprun.channel; ddprun.channel.attach()"}, kLimit, bare) == exited(0));
  const std::string version =
      run({python, "-B", "-c", "import ddprun; print('ddprun', ddprun.__version__)"}, kLimit).out;
  CHECK(run({ddprun, "--version"}, kLimit, bare).out == version);
  const auto installed = files_below(venv);
  CHECK(std::any_of(installed.begin(), installed.end(),
                    [](const std::string& file) { return file.ends_with("/sboms/ddprun.cdx.json"); }));

  const TempFolder project;
  const Ended configured = configure(project, venv, "");
  CHECK(configured == exited(0));
  CHECK(has(configured.out, "launcher: " + ddprun + "\n"));
  CHECK(run({"cmake", "--build", project / "build"}, 60s) == exited(0));
  const Ended refused = configure(TempFolder(), venv, "COMPONENTS ddp");
  CHECK(refused == exited(1));
  CHECK(has(refused.err, "came without its library"));

  REQUIRE(pip({"uninstall", "--yes", "ddprun"}) == exited(0));
  CHECK(files_below(venv) == before);
}

}  // namespace

TEST_CASE(
    "the wheel of this machine's compiler runs jobs in a bare environment, by its Python, and leaves nothing behind") {
  const TempFolder folder;
  const std::vector<fs::path> wheels = packages("wheel", folder / "wheels", {"--native"});
  REQUIRE(wheels.size() == 1);
  CHECK(wheels[0].filename().string().find("-py3-none-manylinux_2_") != std::string::npos);
  CHECK(fs::file_size(wheels[0]) <= kWheelBytesMax);
  use_wheel(wheels[0], {{"tls", "libcrypto.so.3"}, {"stacks", "libelf.so.1"}});

  // What the tag promises is looked for in every file.
  folder.write("said", "platform tag: \"manylinux_2_5_x86_64\"");
  const Ended refused =
      run({source_folder() + "/.venv-package/bin/python", source_folder() + "/scripts/packages/check_wheel.py",
           wheels[0], "manylinux_2_5_x86_64", folder / "said"},
          kLimit);
  CHECK(refused == exited(1));
  CHECK(has(refused.err, "its tag manylinux_2_5_x86_64 promises: "));
  CHECK(has(refused.err, " needs GLIBC_2."));
}

TEST_CASE("the wheels of a release need glibc 2.28, are equal when built again, and this machine's runs jobs") {
  if (skipped_if(!soaking(), "only with DDPRUN_SOAK=1")) return;  // compiles the launcher twice, and OpenSSL
  const TempFolder folder;
  const std::vector<fs::path> release = packages("release", folder / "release");
  REQUIRE(release.size() == 4);
  CHECK(release[0].filename() == "SHA256SUMS");
  const std::string name = "ddprun-0.1.0-py3-none-manylinux_2_28_", processor = run({"uname", "-m"}, kLimit).out;
  CHECK(release[1].filename() == name + "aarch64.whl");
  CHECK(release[2].filename() == name + "x86_64.whl");
  for (const fs::path& wheel : {release[1], release[2]}) {
    INFO(wheel);
    CHECK(fs::file_size(wheel) <= kWheelBytesMax);
    const fs::path files = folder / wheel.stem().string();
    REQUIRE(run({"python3", "-m", "zipfile", "-e", wheel, files}, 60s) == exited(0));
    const std::string needed = glibc_needed(files);
    CHECK(has(needed, "@GLIBC_2."));
    CHECK(std::stoi(needed.substr(std::string("@GLIBC_2.").size())) <= 28);
    const std::string sbom = read_file(files / "ddprun-0.1.0.dist-info/sboms/ddprun.cdx.json");
    for (const char* part : {"openssl", "elfutils", "xz-utils", "zlib", "pcre2", "ziglang", "asio"}) {
      INFO(part);
      CHECK(has(sbom, "\"name\": \"" + std::string(part) + "\""));
    }
  }
  const fs::path own = folder / "release" / (name + processor.substr(0, processor.find('\n')) + ".whl");
  const std::vector<fs::path> again = packages("wheel", folder / "again");
  REQUIRE(again.size() == 1);
  CHECK(read_file(own) == read_file(again[0]));
  use_wheel(own, {});
}

TEST_CASE("this machine's wheel runs jobs in a Debian 11, and the other processor's is loaded there by qemu") {
  if (skipped_if(!soaking() || ::geteuid() != 0, "only with DDPRUN_SOAK=1, as root")) return;
  const std::string target = GENERATE("x86_64", "aarch64");
  const bool native = run({"uname", "-m"}, kLimit).out == target + "\n";
  if (skipped_if(!native && !fs::exists("/proc/sys/fs/binfmt_misc/qemu-" + target),
                 "programs for " + target + " do not run here: install qemu-user-static and binfmt-support"))
    return;
  const TempFolder folder;
  const std::vector<fs::path> wheels = packages("wheel", folder / "wheels", {"--target", target});
  REQUIRE(wheels.size() == 1);
  const Ended checked = run({source_folder() + "/tests/e2e/portable_check.sh", wheels[0]}, kBuildLimit);
  CHECK(checked == exited(0));
  CHECK(has(checked.out, native ? "hello, a restart, two nodes with a token, the store: all work\n"
                                : "program and modules load; skipped by qemu: "));
}

TEST_CASE("a release is the wheel, its sources that build, and their sums, and a second wheel is equal") {
  const TempFolder folder;
  const std::vector<fs::path> release = packages("release", folder / "release", {"--native"}),
                              second = packages("wheel", folder / "second", {"--native"});
  REQUIRE(release.size() == 3);  // twine has looked at them
  const fs::path &sums = release[0], &wheel = release[1], &sources = release[2];
  CHECK(wheel.filename() == second.at(0).filename());
  CHECK(read_file(wheel) == read_file(second.at(0)));
  CHECK(sources.filename() == "ddprun-0.1.0.tar.gz");
  CHECK(run({"sha256sum", "--check", "--strict", sums}, kLimit, {.cwd = folder / "release"}) == exited(0));

  const std::string python = source_folder() + "/.venv-package/bin/python";
  const std::string list =
      "import re, sys, zipfile\n"
      "def names(wheel): return {n for n in zipfile.ZipFile(wheel).namelist() if not re.search('/sboms/|/linked/', "
      "n)}\n"
      "a, b = (names(w) for w in sys.argv[1:])\n"
      "print(sorted(a ^ b), len(a) > 40)\n"
      "print(zipfile.ZipFile(sys.argv[2]).read('ddprun-0.1.0.dist-info/licenses/"
      "LICENSE').decode().split('\\n')[1].strip())\n";
  // The compiler of the other build: what it compiled is in ccache.
  REQUIRE(run({"sh", "-c",
               "CXX=$(command -v clang++ || command -v g++) "
               "exec \"$0\" -m pip wheel --no-build-isolation --no-deps --no-index --wheel-dir \"$1\" \"$2\"",
               python, folder / "built", sources},
              kBuildLimit) == exited(0));
  const fs::path built = fs::directory_iterator(folder / "built")->path();
  CHECK(run({python, "-c", list, wheel, built}, kLimit).out == "[] True\nApache License\n");
}

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

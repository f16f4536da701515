// The wheels, in a bare virtual environment, and a release of them.
#include "tests/e2e/packages.h"
#include "tests/support/soak.h"

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
  CHECK(run({ddprun, "--version"}, kLimit, bare).out.starts_with(version.substr(0, version.size() - 1) + " (commit "));
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
  // Not only of a tagged commit, and without what the trainer's compilation would take.
  packages("release", folder / "release", {"--draft", "--without-train"});
  const std::string name = "ddprun-" + project_version() + "-py3-none-manylinux_2_28_",
                    processor = run({"uname", "-m"}, kLimit).out;
  for (const char* target : {"x86_64", "aarch64"}) {
    const fs::path wheel = folder / "release" / (name + target + ".whl");
    INFO(wheel);
    REQUIRE(fs::exists(wheel));
    CHECK(fs::file_size(wheel) <= kWheelBytesMax);
    const fs::path files = folder / wheel.stem().string();
    REQUIRE(run({"python3", "-m", "zipfile", "-e", wheel, files}, 60s) == exited(0));
    const std::string needed = glibc_needed(files);
    CHECK(has(needed, "@GLIBC_2."));
    CHECK(std::stoi(needed.substr(std::string("@GLIBC_2.").size())) <= 28);
    const std::string sbom = read_file(files / ("ddprun-" + project_version() + ".dist-info/sboms/ddprun.cdx.json"));
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

TEST_CASE("this machine's wheel runs jobs in a Debian 11, and the other processor's does so under qemu") {
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
  CHECK(has(checked.out, "hello, a restart, two nodes with a token, the store, an error of exec: all work\n"));
  CHECK(has(checked.out, "skipped, as qemu's user mode lacks it: ") != native);
}

namespace {

std::string commit_of_sources() {
  return run({"git", "-C", source_folder(), "rev-parse", "HEAD"}, kLimit).out.substr(0, 7);
}

// What is built from the archive of all files has the commit in --version, too.
void check_source_archive(const fs::path& archive, const fs::path& folder) {
  fs::create_directory(folder);
  REQUIRE(run({"tar", "-C", folder, "-xzf", archive}, kLimit) == exited(0));
  const std::string sources = folder / ("ddprun-" + project_version());
  for (const char* file : {"/CHANGELOG.md", "/scripts/package.sh", "/tests/e2e/wheel_test.cpp"})
    CHECK(fs::exists(sources + file));
  REQUIRE(run({"cmake", "-DSOURCE=" + sources, "-DOUTPUT=" + (folder / "commit").string(), "-P",
               sources + "/cmake/FindCommit.cmake"},
              kLimit) == exited(0));
  CHECK(read_file(folder / "commit") == commit_of_sources() + "\n");
}

}  // namespace

TEST_CASE(
    "a release is the packages, sources that build, what is linked in, notes and sums, and a second wheel is equal") {
  const TempFolder folder;
  const std::vector<std::string> which{"--native", "--without-train"};
  const std::vector<fs::path> release = packages("release", folder / "release", joined({which, {"--draft"}})),
                              second = packages("wheel", folder / "second", {"--native"});
  REQUIRE(release.size() == 8);  // twine and lintian have looked at them, and the script at their names
  const fs::path &sums = release[0], &sbom = release[1], &wheel = release[2], &sources = release[3];
  CHECK(wheel.filename() == second.at(0).filename());
  CHECK(read_file(wheel) == read_file(second.at(0)));
  CHECK(sbom.extension() == ".json");
  CHECK(has(read_file(sbom), "\"name\": \"asio\""));
  CHECK(sources.filename().string() == "ddprun-" + project_version() + ".tar.gz");
  CHECK(run({"sha256sum", "--check", "--strict", sums}, kLimit, {.cwd = folder / "release"}) == exited(0));
  CHECK(lines_of(read_file(sums)).size() == release.size() - 1);
  const std::string name = folder / "release" / ("ddprun_" + project_version());
  CHECK(read_file(name + "_notes.md").starts_with("# ddprun " + project_version() + "\n"));
  check_source_archive(name + "_source.tar.gz", folder / "archive");
  CHECK(run({"tar", "-xzOf", sources, "ddprun-" + project_version() + "/cmake/commit.txt"}, kLimit)
            .out.starts_with(commit_of_sources()));

  const std::string python = source_folder() + "/.venv-package/bin/python";
  const std::string list =
      "import re, sys, zipfile\n"
      "def names(wheel): return {n for n in zipfile.ZipFile(wheel).namelist() if not re.search('/sboms/|/linked/', "
      "n)}\n"
      "a, b = (names(w) for w in sys.argv[1:])\n"
      "print(sorted(a ^ b), len(a) > 40)\n"
      "print(zipfile.ZipFile(sys.argv[2]).read('ddprun-" +
      project_version() + ".dist-info/licenses/LICENSE').decode().split('\\n')[1].strip())\n";
  // The compiler of the other build: what it compiled is in ccache.
  REQUIRE(run({"sh", "-c",
               "CXX=$(command -v clang++ || command -v g++) "
               "exec \"$0\" -m pip wheel --no-build-isolation --no-deps --no-index --wheel-dir \"$1\" \"$2\"",
               python, folder / "built", sources},
              kBuildLimit) == exited(0));
  const fs::path built = fs::directory_iterator(folder / "built")->path();
  CHECK(run({python, "-c", list, wheel, built}, kLimit).out == "[] True\nApache License\n");
}

// Which Python a script gets, with environments that are folders, and Pythons that are shell scripts.
#include "tests/e2e/programs.h"
#include "tests/support/test.h"

namespace {

constexpr const char* kSystem = "/usr/bin:/bin";

// Tells its own path.
constexpr const char* kPython = "#!/bin/sh\necho \"by $0\"\n";

void make_environment(const TempFolder& folder, const std::string& name, const std::string& python = kPython) {
  fs::create_directories(folder / name / "bin");
  folder.write(name + "/pyvenv.cfg", "home = /usr/bin\n");
  folder.write(name + "/bin/python3", python, true);
}

void install_ddprun(const TempFolder& folder, const std::string& bin) {
  fs::create_directories(folder / bin);
  fs::copy_file(kDdprun, folder / bin / "ddprun");
}

void install_torch(const TempFolder& folder, const std::string& environment) {
  const std::string package = environment + "/lib/python3.11/site-packages/torch";
  fs::create_directories(folder / package);
  folder.write(package + "/__init__.py", "");
}

Ended in_shell(const TempFolder& folder, const std::string& command, const std::string& path,
               const std::string& active = "") {
  const std::optional<std::string> none;
  return run({"/bin/sh", "-c", command}, kLimit,
             {.env = {{"PATH", path + ":" + kSystem},
                      {"VIRTUAL_ENV", active.empty() ? none : active},
                      {"CONDA_PREFIX", none},
                      {"PYTHON_EXEC", none},
                      {"XDG_STATE_HOME", folder / "state"}},
              .cwd = folder.path()});
}

std::string by(const fs::path& environment) { return "by " + (environment / "bin/python3").string() + "\n"; }

}  // namespace

TEST_CASE("a script gets the Python of the active environment, else of the one in which ddprun was called",
          "[interpreter]") {
  const TempFolder folder;
  for (const char* name : {"active", "tool", "system"}) make_environment(folder, name);
  install_ddprun(folder, "tool/bin");
  fs::create_directories(folder / "home");
  fs::create_symlink(folder / "tool/bin/ddprun", folder / "home/ddprun");
  folder.write("job.py", "");
  folder.write("job.toml", "program = \"job.py\"\n");
  const std::string active = folder / "active", home = folder / "home", system = folder / "system/bin",
                    tool = folder / "tool/bin";
  CHECK(in_shell(folder, "tool/bin/ddprun job.py", system).out == by(folder / "tool"));
  CHECK(in_shell(folder, "ddprun job.py", tool + ":" + system).out == by(folder / "tool"));
  CHECK(in_shell(folder, "tool/bin/ddprun job.py", active + "/bin:" + system, active).out == by(active));
  CHECK(in_shell(folder, "tool/bin/ddprun job.py", system, active).out == by(folder / "tool"));  // left over

  // As `uv tool install` makes them.
  CHECK(in_shell(folder, "ddprun job.py", home + ":" + system).out == by(folder / "system"));
  CHECK(in_shell(folder, "home/ddprun job.py", system).out == by(folder / "system"));
  CHECK(in_shell(folder, "ddprun job.py", active + "/bin:" + home + ":" + system, active).out == by(active));
  CHECK(has(in_shell(folder, "ddprun run job.toml", home + ":" + system).out, by(folder / "system")));
}

TEST_CASE("a script gets the Python of the source tree that ddprun was built in where no other has torch",
          "[interpreter]") {
  const TempFolder folder;
  make_environment(folder, "src/.venv");
  make_environment(folder, "system");
  install_ddprun(folder, "src/build/release/bin");
  folder.write("job.py", "");
  const auto job = [&] { return in_shell(folder, "src/build/release/bin/ddprun job.py", folder / "system/bin").out; };
  CHECK(job() == by(folder / "system"));  // .venv has none
  install_torch(folder, "src/.venv");
  CHECK(job() == by(folder / "src/.venv"));
  install_torch(folder, "system");
  CHECK(job() == by(folder / "system"));
}

TEST_CASE("the report of a missing module names the Python that looked for it, and one here that has it",
          "[interpreter]") {
  const TempFolder folder;
  make_environment(folder, "system", "#!/bin/sh\necho \"ModuleNotFoundError: No module named 'torch'\" >&2; exit 1\n");
  make_environment(folder, ".venv");
  install_ddprun(folder, "bin");
  folder.write("job.py", "");
  const std::string python = folder / "system/bin/python3";
  const std::string missing = "the module torch is not found by " + python;
  const auto job = [&] { return in_shell(folder, "bin/ddprun job.py", folder / "system/bin").err; };
  CHECK(has(job(), missing + ": install it"));
  install_torch(folder, ".venv");
  CHECK(has(job(), missing + ", but " + (folder / ".venv/bin/python3").string() + " has it: activate its environment"));
}

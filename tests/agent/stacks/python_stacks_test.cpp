// Python frames by tools that are programs: real py-spy where it is installed, scripts in its place elsewhere.
#include "agent/stacks/python_tool.h"
#include "agent/stacks/take_stacks.h"
#include "agent/stacks/top_frame.h"
#include "tests/support/test.h"

namespace {

constexpr std::chrono::seconds kLimit{30};

void skip(const std::string& why) { WARN("skipped: " << why); }

const std::string kPython = venv_python();

const std::string kProgram =
    "import time\n"
    "def evaluate():\n"
    "  print('ready', flush=True)\n"
    "  time.sleep(1000)\n"
    "evaluate()\n";

bool has_python() { return access(venv_python().c_str(), X_OK) == 0; }

ToolResult run_tool(const TempFolder& folder, const std::string& script, Duration limit = kLimit) {
  return run_python_tool({folder.write("py-spy", "#!/bin/sh\n" + script, true)}, 77, {"PATH=/usr/bin:/bin"},
                         Clock::now() + limit);
}

}  // namespace

TEST_CASE("py-spy is taken from PYSPY_BIN, from beside the interpreter, from PATH, and before pystack", "[stacks]") {
  const TempFolder folder;
  for (const char* place : {"chosen", "bin", "path"}) fs::create_directory(folder / place);
  const auto add = [&](const std::string& name) { return folder.write(name, "", true).string(); };
  const PythonProcess process{"/usr/bin/python3.11", {folder / "bin"}};
  const std::vector<std::string> path{"PATH=" + (folder / "path").string()};
  const auto found = [&](std::vector<std::string> environment) {
    const PythonTool tool = find_python_tool(process, environment);
    return tool.command.empty() ? "" : tool.command[0];
  };

  CHECK(found(path).empty());
  CHECK(find_python_tool(process, path).searched ==
        "PYSPY_BIN is not set; " + (folder / "bin").string() + " and " + (folder / "path").string());
  const std::string other = add("path/pystack");
  CHECK(found(path) == other);
  CHECK(find_python_tool(process, path).command == std::vector<std::string>{other, "remote", "--no-block"});
  const std::string in_path = add("path/py-spy");
  CHECK(found(path) == in_path);
  const std::string beside = add("bin/py-spy");
  CHECK(found(path) == beside);
  for (const fs::path& shared : {fs::path(beside), folder / "bin"}) {  // it would run with our rights
    fs::permissions(shared, fs::perms::others_write, fs::perm_options::add);
    CHECK(found(path) == in_path);
    CHECK_THAT(find_python_tool(process, {}).searched, Contains(beside + " is not run, as another user may change it"));
    fs::permissions(shared, fs::perms::others_write, fs::perm_options::remove);
  }
  const std::string chosen = add("chosen/spy");
  CHECK(found({path[0], "PYSPY_BIN=" + chosen}) == chosen);
  CHECK(found({path[0], "PYSPY_BIN=/nowhere/py-spy"}) == beside);
  CHECK_THAT(find_python_tool(process, {"PYSPY_BIN=/nowhere/py-spy"}).searched,
             StartsWith("PYSPY_BIN=/nowhere/py-spy; "));
}

TEST_CASE("a process that calls itself by a file elsewhere brings no tool from there", "[stacks]") {
  const TempFolder folder;
  fs::create_symlink("/bin/sleep", folder / "python3");
  if (!has_python()) return skip("there is no Python");
  const auto has_folder = [&](const std::string& name, const fs::path& one) {
    const pid_t pid = fork();
    if (pid == 0) {
      if (chdir(folder.path().c_str()) == 0)
        execl(kPython.c_str(), name.c_str(), "-c", "import time; time.sleep(600)", nullptr);
      _exit(1);
    }
    // What it is called comes a moment after its program.
    CHECK(eventually([&] { return read_file("/proc/" + std::to_string(pid) + "/cmdline").starts_with(name); }, kLimit));
    const std::vector<std::string> all = python_process(pid).bin_folders;
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    return std::find(all.begin(), all.end(), one.string()) != all.end();
  };
  CHECK_FALSE(has_folder("./python3", folder.path()));
  CHECK(has_folder(kPython, fs::path(kPython).parent_path()));
}

TEST_CASE("what the tool prints is taken, and its failure is told with what it said first", "[stacks]") {
  const TempFolder folder;
  CHECK(run_tool(folder, "echo \"Thread $1 (idle)\"").text == "Thread 77 (idle)\n");
  CHECK_THAT(run_tool(folder, "echo 'Error: not a Python process' >&2; echo more >&2; exit 1").missing,
             Contains("py-spy printed no frames: Error: not a Python process") && !Contains("more"));
  CHECK_THAT(run_tool(folder, "echo 'Permission Denied: Try again' >&2; exit 1").missing,
             Contains("kernel.yama.ptrace_scope=1"));
  CHECK_THAT(run_python_tool({"/nowhere/py-spy"}, 1, {}, Clock::now() + kLimit).missing,
             StartsWith("cannot start /nowhere/py-spy: "));
}

TEST_CASE("the tool has its standard streams, and no descriptor that ddprun was started with", "[stacks]") {
  const TempFolder folder;
  const int inherited = fcntl(STDERR_FILENO, F_DUPFD, 100);  // without close-on-exec
  REQUIRE(inherited >= 100);
  const std::string shell =
      "[ -e /proc/self/fd/" + std::to_string(inherited) + " ] && echo Thread open || echo Thread closed";
  CHECK(run_tool(folder, shell).text == "Thread closed\n");
  close(inherited);
}

TEST_CASE("a tool whose first attempts fail is asked again", "[stacks]") {
  const TempFolder folder;
  const std::string file = folder / "tried";
  CHECK(run_tool(folder, "[ -e " + file + " ] && echo 'Thread 1' && exit; touch " + file + "; exit 1").text ==
        "Thread 1\n");
}

TEST_CASE("a tool that does not end is killed at the limit", "[stacks][waits]") {
  const TempFolder folder;
  const std::string file = folder / "pid";
  CHECK_THAT(run_tool(folder, "echo $$ > " + file + "; exec sleep 1000", 1s).missing, Contains("did not end in time"));
  const std::string pid = read_file(file);
  CHECK((pid.empty() || eventually([&] { return !fs::exists("/proc/" + pid.substr(0, pid.size() - 1)); }, kLimit)));
}

TEST_CASE("a Python process is known, and its virtual environment", "[stacks]") {
  if (!has_python()) return skip("no " + venv_python());
  Command python({kPython, "-c", kProgram});
  python.wait_for_output("ready", kLimit);
  const PythonProcess process = python_process(python.pid());
  CHECK(process);
  REQUIRE_FALSE(process.bin_folders.empty());
  CHECK(process.bin_folders[0] == fs::path(kPython).parent_path());
  CHECK_FALSE(python_process(getpid()));

  Command shell({"/bin/sh", "-c", "echo ready; read line"}, {.input = ""});
  CHECK_FALSE(python_process(shell.pid()));
}

TEST_CASE("where no tool is found it is said where it was looked for", "[stacks]") {
  if (!has_python()) return skip("no " + venv_python());
  const TempFolder folder;
  fs::create_symlink("/usr/bin/python3", folder / "python3");
  Command python({folder / "python3", "-c", kProgram});
  python.wait_for_output("ready", kLimit);
  if (access("/usr/bin/py-spy", X_OK) == 0 || access("/usr/bin/pystack", X_OK) == 0) return;
  const auto stacks = take_stacks({python.pid()}, kLimit, {.environment = {"PATH=/nowhere"}});
  CHECK(stacks[0].python.empty());
  CHECK_THAT(stacks[0].python_missing, Contains("neither py-spy nor pystack was found (PYSPY_BIN is not set; ") &&
                                           Contains(folder.path().string()) && Contains("/nowhere"));
}

TEST_CASE("py-spy's frames tell a worker's Python function", "[stacks]") {
  if (access((fs::path(kPython).parent_path() / "py-spy").c_str(), X_OK) != 0)
    return skip("no py-spy beside " + venv_python());
  Command python({kPython, "-c", kProgram});
  python.wait_for_output("ready", kLimit);
  ProcessStacks stacks;
  CHECK(eventually(  // between the line and the sleep it is in print()
      [&] {
        stacks = take_stacks({python.pid()}, kLimit)[0];
        return stacks.python.find("evaluate (<string>:4)") != stacks.python.npos;
      },
      kLimit));
  CAPTURE(stacks.python, stacks.python_missing);
  REQUIRE(top_frame(stacks));
  CHECK(in_words(*top_frame(stacks)) == "in evaluate (<string>:4)");
  CHECK_FALSE(python.ended());
}

// What somebody types in the first hour, and what ddprun and train answer: testdata/first_hour.txt. The commands run in
// one folder, one after the other. DDPRUN_UPDATE=1 rewrites the answers; review the diff.
#include <cstdlib>
#include <regex>
#include <sstream>

#include "tests/e2e/doc_page.h"
#include "tests/e2e/programs.h"
#include "tests/support/test.h"

namespace {

// Paths, process ids and times of this machine, by their names.
std::string anywhere(std::string text, const TempFolder& folder) {
  static const std::string host = [] {
    const std::string line = run({"uname", "-n"}, kLimit).out;
    return line.substr(0, line.find('\n'));
  }();
  const std::string python = torch_python();
  for (const auto& [path, name] :
       {std::pair{folder.path().string(), std::string("FOLDER")}, std::pair{python + "3", std::string("PYTHON")},
        std::pair{python, std::string("PYTHON")}, std::pair{programs_folder(), std::string("BIN")},
        std::pair{" " + host + ", pid", std::string(" HOST, pid")}})
    for (std::size_t at = 0; (at = text.find(path, at)) != text.npos; at += name.size())
      text.replace(at, path.size(), name);
  static const std::regex kPid("pid [0-9]+"), kTime("[0-9-]{10} [0-9:.]{12}, [0-9.]+ s after");
  return std::regex_replace(std::regex_replace(text, kPid, "pid PID"), kTime, "TIME, SECONDS s after");
}

std::string words_of(const Ended& ended) {
  return ended.signal ? "signal " + std::to_string(ended.signal) : "exit code " + std::to_string(ended.code);
}

std::string answer(const std::string& command, const TempFolder& folder) {
  const std::string python = fs::path(torch_python()).parent_path();
  // Nothing of the environment here, where somebody may have set options.
  const Ended ended = run(
      {"env", "-i", "PATH=" + programs_folder() + ":" + python + ":/usr/bin:/bin", "HOME=" + folder.path().string(),
       "OMP_NUM_THREADS=1", "RES_OPTIONS=timeout:1 attempts:1", "XDG_STATE_HOME=" + folder.path().string() + "/state",
       "bash", "-o", "pipefail", "-c", "exec 2>&1; " + command},
      3 * kLimit, {.cwd = folder.path()});
  std::string out = anywhere(ended.out, folder);
  if (!out.empty() && out.back() != '\n') out += '\n';
  return ended == exited(0) ? out : out + "[" + words_of(ended) + "]\n";
}

std::string exits_of(const std::string& transcript) {
  std::istringstream in(transcript);
  std::string out;
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("[ex") || line.starts_with("$ ")) out += line + "\n";
  return out;
}

}  // namespace

TEST_CASE("what one types in the first hour is answered in sentences a person can act on", "[first_hour]") {
  const fs::path file = source_folder() + "/tests/e2e/testdata/first_hour.txt";
  const std::string golden = read_file(file);
  const TempFolder folder;
  std::istringstream in(golden);
  std::string now;
  int commands = 0;
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] == '#') now += line + "\n";
    if (!line.starts_with("$ ")) continue;
    ++commands;
    now += line + "\n" + answer(line.substr(2), folder);
  }
  CHECK(commands >= 30);
  if (std::getenv("DDPRUN_UPDATE")) {
    std::ofstream(file) << now;
    return;
  }
  CHECK(exits_of(now) == exits_of(golden));
  if (!shows(golden, now)) CHECK(now == golden);
}

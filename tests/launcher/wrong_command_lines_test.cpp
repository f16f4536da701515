// Every way to be wrong, with what ddprun answers: testdata/wrong_command_lines.txt, rewritten by DDPRUN_UPDATE=1.
#include <map>
#include <sstream>

#include "launcher/cli.h"
#include "tests/support/catch.h"
#include "tests/support/command.h"
#include "tests/support/places.h"
#include "tests/support/transcript.h"

using namespace ddprun;
using namespace ddprun::launcher;

namespace {

const std::string kGolden = test::source_folder() + "/tests/launcher/testdata/wrong_command_lines.txt";

// The words of a line as a shell reads them, as far as quotes go.
std::vector<std::string> shell_words(const std::string& line) {
  std::vector<std::string> words;
  bool inside = false;
  char quote = 0;
  for (const char c : line) {
    if (quote ? c == quote : c == '\'' || c == '"') {
      quote = quote ? '\0' : c;
      if (!inside) words.emplace_back();
      inside = true;
    } else if (!quote && c == ' ') {
      inside = false;
    } else {
      if (!inside) words.emplace_back();
      inside = true;
      words.back() += c;
    }
  }
  return words;
}

using Files = std::map<std::string, std::string>;

Inputs inputs(const agent::Environment& environment, const Files& files) {
  return {environment, [files](const std::string& name) -> std::variant<FileText, Unreadable> {
            const auto found = files.find(name);
            if (found == files.end()) return Unreadable{"No such file or directory"};
            return FileText{found->second};
          }};
}

// "PET_ROLE=x ddprun --tee=9 train" → what it says.
std::string answer(const std::string& line, const Files& files) {
  std::vector<std::string> words = shell_words(line);
  agent::Environment environment;
  while (!words.empty() && words.front() != "ddprun") {
    const std::size_t equals = words.front().find('=');
    environment[words.front().substr(0, equals)] = words.front().substr(equals + 1);
    words.erase(words.begin());
  }
  REQUIRE(!words.empty());
  words.erase(words.begin());
  const CommandLine result = read_command_line(words, inputs(environment, files));
  const Machine machine{.cpus = 8, .interfaces = [] { return std::vector<std::string>{"lo", "eth0"}; }};
  std::string out;
  for (const std::string& sentence : result.mistakes) out += sentence + "\n";
  for (const std::string& sentence : problems(result.config, machine)) out += sentence + "\n";
  return out.empty() ? "(nothing is wrong)\n" : out;
}

// Comments, files ("| ") and commands ("$ ") stay; what else stands below a command is its answer.
std::string replayed(const std::string& golden) {
  std::istringstream in(golden);
  std::string out, file;
  for (std::string line; std::getline(in, line);) {
    if (line.empty()) file.clear();
    if (line.empty() || line[0] == '#') out += line + "\n";
    if (line.starts_with("|")) {
      out += line + "\n";
      file += line.substr(std::min<std::size_t>(2, line.size())) + "\n";
    }
    if (line.starts_with("$ ")) out += line + "\n" + answer(line.substr(2), {{"job.toml", file}});
  }
  return out;
}

}  // namespace

TEST_CASE("every wrong command line, variable and file is answered in sentences a person can act on", "[wrong]") {
  const std::string golden = test::read_file(kGolden), now = replayed(golden);
  CHECK(std::count(golden.begin(), golden.end(), '$') >= 60);
  if (!test::matches_golden(kGolden, now)) CHECK(now == golden);
}

TEST_CASE("no wrong command line is taken for right, and every sentence is whole", "[wrong]") {
  std::istringstream lines(test::read_file(kGolden));
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#' || line[0] == '|' || line.starts_with("$ ")) continue;
    INFO(line);
    CHECK(line != "(nothing is wrong)");
    CHECK((line.ends_with('.') || line.ends_with('?')));
  }
}

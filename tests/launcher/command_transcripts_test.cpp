// Command lines with what ddprun answers: testdata/wrong_command_lines.txt, every way to be wrong, and
// testdata/scheduler.txt, what is taken from a scheduler's environment. DDPRUN_UPDATE=1 rewrites both.
#include "launcher/config/cli.h"
#include "launcher/config/options.h"
#include "launcher/ssh/ssh_command.h"
#include "tests/support/test.h"
#include "tests/support/transcript.h"

namespace {

const std::string kFolder = test::source_folder() + "/tests/launcher/testdata/";

// Where a command starts.
struct Place {
  Environment environment = {};
  std::string host_name = {};
  std::map<std::string, std::string> files = {{"job.toml", ""}, {"/etc/hosts", ""}};
};

void set_variable(Place& place, const std::string& word) {
  const std::size_t equals = word.find('=');
  place.environment[word.substr(0, equals)] = word.substr(equals + 1);
}

// "PET_ROLE=x ddprun --tee=9 train" → what it asks for.
CommandLine read(const std::string& line, Place place) {
  Words words = std::get<Words>(read_command_words(line));
  for (; words.front() != "ddprun"; words.erase(words.begin())) set_variable(place, words.front());
  words.erase(words.begin());
  const auto read_file = [&](const std::string& name) -> std::variant<FileText, Unreadable> {
    const auto found = place.files.find(name);
    if (found == place.files.end()) return Unreadable{"No such file or directory"};
    return FileText{found->second};
  };
  return read_command_line(words, {place.environment, read_file, {}, [&] { return place.host_name; }});
}

// Comments, places ("| ", until an empty line) and commands ("$ ") stay; what else stands below a command is its
// answer.
void check_transcript(const std::string& name, void (*add)(Place& place, const std::string& line),
                      std::string (*answer)(const std::string& line, const Place& place)) {
  const std::string golden = test::read_file(kFolder + name);
  std::istringstream in(golden);
  std::string now;
  Place place;
  for (std::string line; std::getline(in, line);) {
    if (line.empty()) place = {};
    if (line.starts_with("| ")) add(place, line.substr(2));
    if (line.empty() || line[0] == '#' || line[0] == '|') now += line + "\n";
    if (line.starts_with("$ ")) now += line + "\n" + answer(line.substr(2), place);
  }
  CHECK(std::count(golden.begin(), golden.end(), '$') >= 30);
  if (!test::matches_golden(kFolder + name, now)) CHECK(now == golden);
}

}  // namespace

TEST_CASE("every wrong command line, variable and file is answered in sentences a person can act on", "[wrong]") {
  const auto add = [](Place& place, const std::string& line) { place.files["job.toml"] += line + "\n"; };
  check_transcript("wrong_command_lines.txt", add, [](const std::string& line, const Place& place) {
    const CommandLine result = read(line, place);
    const Machine machine{.cpus = 8, .interfaces = [] { return Words{"lo", "eth0"}; }};
    Words sentences = result.mistakes;
    for (const std::string& sentence : problems(result.config, machine, result.mistakes)) sentences.push_back(sentence);
    INFO(line);
    CHECK_FALSE(sentences.empty());
    std::string out;
    for (const std::string& sentence : sentences) {
      CHECK((sentence.ends_with('.') || sentence.ends_with('?')));
      out += sentence + "\n";
    }
    return out;
  });
}

TEST_CASE("what the variables of a step or a pod stand in for, and what they leave alone", "[scheduler]") {
  // "| SLURM_NODEID=1", "| the host is mnist-1", "| /etc/hosts has 10.0.0.5 mnist-1.svc mnist-1"
  const auto add = [](Place& place, const std::string& line) {
    constexpr std::string_view kHost = "the host is ", kHas = " has ";
    if (const std::size_t has = line.find(kHas); has != std::string::npos)
      place.files[line.substr(0, has)] += line.substr(has + kHas.size()) + "\n";
    else if (line.starts_with(kHost))
      place.host_name = line.substr(kHost.size());
    else
      set_variable(place, line);
  };
  // What it takes, what it warns of, and what is wrong.
  check_transcript("scheduler.txt", add, [](const std::string& line, const Place& place) {
    const CommandLine result = read(line, place);
    std::string out;
    for (const settings::Option& option : options().options)
      if (const settings::Setting* setting = in_force(result.config.settings, option);
          setting && setting->origin == settings::Origin::scheduler)
        out += std::string(option.name) + " = " + setting->text + "  (" + setting->place + ")\n";
    if (result.config.requeues.value_or(0) > 0) out += "requeues: " + std::to_string(*result.config.requeues) + "\n";
    for (const std::string& sentence : result.warnings) out += "warning: " + sentence + "\n";
    for (const std::string& sentence : result.mistakes) out += "mistake: " + sentence + "\n";
    for (const std::string& sentence : problems(result.config, {8})) out += "mistake: " + sentence + "\n";
    return out.empty() ? "(nothing)\n" : out;
  });
}

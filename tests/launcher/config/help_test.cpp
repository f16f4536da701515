#include "launcher/config/help.h"

#include "launcher/chaos/chaos_words.h"
#include "launcher/command/ctl_words.h"
#include "launcher/command/report_command.h"
#include "launcher/command/stacks_command.h"
#include "launcher/config/command_names.h"
#include "launcher/config/man_page.h"
#include "launcher/config/options.h"
#include "launcher/jobs/job_words.h"
#include "launcher/settings/help.h"
#include "rendezvous/base/spelling.h"
#include "tests/support/test.h"

using namespace ddprun::settings;

namespace {

int lines_of_80_columns(const std::string& text) {
  std::istringstream in(text);
  int lines = 0;
  for (std::string line; std::getline(in, line); ++lines) {
    INFO(line);
    CHECK(line.size() <= 80);
  }
  return lines;
}

void fits_a_screen(const std::string& text) { CHECK(lines_of_80_columns(text) <= 24); }

// The help of each verb that ddprun's own help names.
std::map<std::string, std::string> help_of_verbs() {
  std::map<std::string, std::string> out{{"ctl", read_ctl_words({"--help"}).answer},
                                         {"chaos", read_chaos_words({"--help"}).answer},
                                         {"report", report_help()},
                                         {"stacks", stacks_help()}};
  const std::string overview = help_text();
  const std::regex list("[a-z]+(\\|[a-z]+)+");
  for (std::sregex_iterator found(overview.begin(), overview.end(), list), end; found != end; ++found)
    for (const std::string& verb : split(found->str(), '|'))
      if (is_job_command(verb)) out[verb] = read_job_words({verb, "--help"}).answer;
  return out;
}

bool can_run(const std::string& program) { return test::run({"sh", "-c", "command -v " + program}, 10s).code == 0; }

// What bash offers for a command line whose words are given, the cursor at the last.
std::string offered(const TempFolder& folder, const std::vector<std::string>& words) {
  folder.write("completion", completion(launcher::options(), "bash"));
  std::string list;
  for (const std::string& word : words) list += " '" + word + "'";
  const std::string script = "source '" + (folder / "completion").string() + "'; COMP_WORDS=(" + list +
                             "); COMP_CWORD=" + std::to_string(words.size() - 1) +
                             "; compopt() { :; }; _ddprun; echo \"${COMPREPLY[*]}\"";
  const Ended ended = test::run({"bash", "-c", script}, 10s, {.cwd = folder.path()});
  CHECK(ended.err.empty());
  return ended.out;
}

}  // namespace

TEST_CASE("every screen of help fits 24 lines of 80 columns", "[help]") {
  fits_a_screen(help_text());
  for (const Group* group : launcher::options().groups) fits_a_screen(help_text(group->name));
}

TEST_CASE("the help of every verb has 80 columns: usage, a sentence, what it takes", "[help]") {
  lines_of_80_columns(help_text("all"));
  const auto all = help_of_verbs();
  CHECK(all.size() == 12);
  for (const auto& [verb, text] : all) {
    INFO(text);
    lines_of_80_columns(text);
    CHECK_THAT(text, StartsWith("usage: ddprun " + verb + " ") && EndsWith("ddprun ./" + verb + "\n"));
    CHECK_THAT(text, Matches("usage: .*\n[A-Z][^\n]*\n([^ \n][^\n]*\n)*\n  [A-Za-z-][\\s\\S]*"));
  }
}

TEST_CASE("a verb's help has what CLI11 knows of its options, and no secret ones", "[help]") {
  CHECK(read_job_words({"run", "--help"}).answer ==
        "usage: ddprun run FILE [options] [-- ARGUMENTS]\n"
        "Runs the job that a TOML file describes, on this machine or as a node of a\n"
        "scheduler's job.\n"
        "\n"
        "  FILE                     the job's file (docs/jobs.md)\n"
        "  --set KEY=VALUE          sets a value of the file: --set max-restarts=5,\n"
        "                           --set hyperparameters.lr=0.1\n"
        "  --dry-run                prints what would be started, byte for byte, and\n"
        "                           starts nothing\n"
        "  -h, --help               prints this\n"
        "\n"
        "Words behind -- are further arguments of the program.\n"
        "To run a program of that name: ddprun ./run\n");
  CHECK(has(read_job_words({"log", "--help"}).answer, "\n  -f, --follow             goes on"));
}

TEST_CASE("every option is on one screen of help, in the manual and in the completions", "[help]") {
  const Table& table = launcher::options();
  std::string screens;
  for (const Group* group : table.groups) screens += help_text(group->name);
  const std::string manual = man_page(), bash = completion(table, "bash"), zsh = completion(table, "zsh"),
                    tcsh = completion(table, "tcsh");
  for (const Option& row : table.options) {
    if (row.group->kind == Group::hidden) continue;
    const std::string name = std::string("--") + row.name;
    INFO(name);
    CHECK(screens.find(name) != std::string::npos);
    if (row.group->kind == Group::foreign) continue;
    CHECK(bash.find(name) != std::string::npos);
    CHECK(zsh.find("'" + name) != std::string::npos);
    CHECK(tcsh.find(std::string(row.flag() ? "" : "'n/--") + row.name) != std::string::npos);
    std::string in_roff;
    for (const char c : name) in_roff += c == '-' ? std::string("\\-") : std::string(1, c);
    CHECK(manual.find("\\fB" + in_roff + "\\fR") != std::string::npos);
  }
}

TEST_CASE("names, letters and aliases of the options are all different", "[help]") {
  for (const Option& row : launcher::options().options)
    for (const Option& other : launcher::options().options) {
      if (&row == &other) continue;
      CHECK(std::string(row.name) != other.name);
      CHECK(std::string(row.name) != other.alias);
      CHECK((row.letter == 0 || row.letter != other.letter));
    }
}

TEST_CASE("the manual page is roff without a warning", "[help]") {
  if (!can_run("groff")) return;
  const Ended ended = test::run({"groff", "-man", "-Tutf8", "-ww", "-z"}, 20s, {.input = man_page()});
  CHECK(ended.code == 0);
  CHECK(ended.err.empty());
}

TEST_CASE("bash completes names, choices and files, and leaves the program's words alone", "[help]") {
  if (!can_run("bash")) return;
  const TempFolder folder;
  folder.write("job.toml", "");
  CHECK(offered(folder, {"ddprun", "--max-r"}) == "--max-restarts --max-run\n");
  CHECK(offered(folder, {"ddprun", "--numa-binding", "so"}) == "socket\n");
  CHECK(offered(folder, {"ddprun", "--numa_binding", "=", "so"}) == "socket\n");
  CHECK(offered(folder, {"ddprun", "-r", ""}) == "0 1 2 3\n");
  CHECK(offered(folder, {"ddprun", "--config", "jo"}) == "job.toml\n");
  CHECK(offered(folder, {"ddprun", "--nproc-per-node", "2", "--standalone", "--tee", "=", "3", "--help"}) ==
        "--help\n");
  CHECK(offered(folder, {"ddprun", "--standalone", "train", "--max-r"}) == "\n");
  CHECK(offered(folder, {"ddprun", "jo"}).starts_with("job.toml"));
  CHECK(offered(folder, {"ddprun", "subm"}).find("submit") != std::string::npos);
  CHECK(offered(folder, {"ddprun", "run", "jo"}) == "\n");  // files, by the shell's default
}

TEST_CASE("tcsh completes names, choices and files", "[help]") {
  const std::string script = completion(launcher::options(), "tcsh");
  for (const char* part : {"complete ddprun \\\n", "  'n/--numa-binding/(none node socket exclusive core-complex)/' ",
                           "'c/--tee=/(0 1 2 3)/'", "'n/-t/(0 1 2 3)/'", "'n/--config/f/'", "'n/--log-dir/d/'",
                           "'n/--role/n/'", " max-restarts "})
    CHECK(script.find(part) != std::string::npos);
  if (!can_run("tcsh")) return;
  const Ended ended = test::run({"tcsh", "-f"}, 10s, {.input = script + "complete ddprun\n"});
  CHECK(ended.code == 0);
  CHECK(ended.err.empty());
  CHECK(ended.out.find("n/--numa-binding/(none node") != std::string::npos);
}

TEST_CASE("zsh reads its completion", "[help]") {
  if (!can_run("zsh")) return;
  CHECK(test::run({"zsh", "-n"}, 10s, {.input = completion(launcher::options(), "zsh")}).code == 0);
}

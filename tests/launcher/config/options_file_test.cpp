#include "launcher/config/options_file.h"

#include "launcher/config/options.h"
#include "tests/support/test.h"

namespace {

OptionsFile file(const std::string& text) { return read_options_file("job.toml", text); }

// "role=a stop-grace=2.5": by the order of the names.
std::string settings_of(const OptionsFile& read) {
  std::map<std::string, std::string> texts;
  for (const settings::Setting& setting : read.settings) texts[setting.option->name] = setting.text;
  std::string out;
  for (const auto& [name, text] : texts) out += (out.empty() ? "" : " ") + name + "=" + text;
  return out;
}

}  // namespace

TEST_CASE("a file's keys are the options, with dashes or underscores", "[config_file]") {
  const OptionsFile read =
      file("nproc-per-node = 4\nmax_restarts = 2\nstandalone = true\nstop-grace = 2.5\nrole = 'a'\n");
  CHECK(read.mistakes.empty());
  CHECK(settings_of(read) == "max-restarts=2 nproc-per-node=4 role=a standalone=true stop-grace=2.5");
  CHECK(read.settings.front().place.starts_with("job.toml:"));
}

TEST_CASE("an array in a file is a list, and a comma in a filter stays one", "[config_file]") {
  const OptionsFile read = file(
      "local-ranks-filter = [0, '2-3']\nduplicate-stdout-filters = ['a,b', 'c']\n"
      "signals-to-handle = ['SIGTERM']\n");
  CHECK(read.mistakes.empty());
  CHECK(settings_of(read) == "duplicate-stdout-filters=a,,b,c local-ranks-filter=0,2-3 signals-to-handle=SIGTERM");
}

TEST_CASE("a file may name the program and variables for the workers", "[config_file]") {
  const OptionsFile read = file("program = ['train', '--lr', '1']\n[env]\nNCCL_DEBUG = 'INFO'\nOMP_NUM_THREADS = 4\n");
  CHECK(read.mistakes.empty());
  CHECK(read.program == std::vector<std::string>{"train", "--lr", "1"});
  CHECK(read.program_place == "job.toml:1");
  CHECK(read.env == std::map<std::string, std::string>{{"NCCL_DEBUG", "INFO"}, {"OMP_NUM_THREADS", "4"}});
  CHECK(file("program = 'train'").program == std::vector<std::string>{"train"});
}

TEST_CASE("a key of 200,000 parts in a file is told, never a crash", "[config_file]") {
  std::string key = "a";
  for (int i = 1; i < 200'000; ++i) key += ".a";
  for (const std::string& text : {key + " = 1", "[" + key + "]\nb = 1", "x = {" + key + " = 1}", key}) {
    const OptionsFile read = file("role = 'b'\n" + text + "\n");
    REQUIRE(read.mistakes.size() == 1);
    CHECK(read.mistakes[0].starts_with("job.toml:2: "));
    CHECK(read.mistakes[0].find("a key has more than 8 parts") != std::string::npos);
  }
}

TEST_CASE("dots in texts, comments and numbers are no parts of a key", "[config_file]") {
  const std::string dots(100, '.');
  for (const std::string& text :
       {"role = '" + dots + "'", R"(role = "\")" + dots + "\"", "role = '''a\n" + dots + "'''",
        "role = \"\"\"\n" + dots + "\\\"\"\" " + dots + "\"\"\"", "role = 'a' # " + dots, "'" + dots + "' = 1",
        std::string("local-ranks-filter = [0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 9.5]")}) {
    INFO(text);
    for (const std::string& mistake : file(text).mistakes)
      CHECK(mistake.find("more than 8 parts") == std::string::npos);
  }
}

TEST_CASE("any bytes in a file are told or read, never a crash", "[config_file]") {
  for (const char* text : {"\xff\xfe", "= 1", "[", "[[env]]", "a.b = 1", "\"\" = 1", "[env]\n\"\" = 'x'", "role = 'a",
                           "[env.x]\ny = 1", "program = []", "tee = {a = 1}", "role = 1979-05-27T07:32:00Z"})
    CHECK_NOTHROW(file(text));
  CHECK(file("").mistakes.empty());
  CHECK(file("role.x = 1").mistakes.size() == 1);
}

#include "launcher/command/report_command.h"
#include "tests/support/test.h"

TEST_CASE("a report's words are a file or job and options with their values", "[report_words]") {
  const ReportWords words = read_report_words({"--json", "events.jsonl", "--run-id", "a", "-o", "page.html"});
  CHECK(words.mistake.empty());
  CHECK(words.json);
  CHECK(words.file == "events.jsonl");
  CHECK(words.run_id == "a");
  CHECK(words.page == "page.html");
  CHECK(read_report_words({"j", "--output=b.html", "--run-id=c"}).page == "b.html");
  CHECK(read_report_words({"j", "--run-id=c"}).run_id == "c");
  CHECK(read_report_words({"j", "-h"}).help);
  CHECK(read_report_words({"--help"}).help);
  CHECK(read_report_words({"j", "-o", "-h"}).page == "-h");
}

TEST_CASE("wrong words of report are told in a sentence each", "[report_words]") {
  const auto mistake = [](const std::vector<std::string>& words) { return read_report_words(words).mistake; };
  for (const std::vector<std::string>& none : {std::vector<std::string>{}, {"--json"}, {"-o", "x.html"}})
    CHECK(mistake(none) == "it takes a file of events, or a job: ddprun report --help.");
  for (const char* option : {"-o", "--output", "--run-id"})
    CHECK(mistake({"job", option}) == std::string(option) + " needs a value.");
  CHECK(mistake({"-j", "x"}) == "there is no option -j; ddprun report --help lists them.");
  CHECK(mistake({"--jsn", "x"}) == "there is no option --jsn. Did you mean '--json'?");
  CHECK(mistake({"a", "b"}) == "'b' is one word too many.");
}

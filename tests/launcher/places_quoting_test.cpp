#include "launcher/jobs/places/quoting.h"
#include "rendezvous/base/spelling.h"
#include "tests/support/catch.h"
#include "tests/support/command.h"

using namespace ddprun;
using namespace ddprun::launcher;
using namespace std::chrono_literals;

TEST_CASE("bash reads a quoted word as the same word", "[places]") {
  CHECK(shell_word("/usr/bin/ddprun") == "/usr/bin/ddprun");
  for (const std::string word : {"", "two words", "it's", "$HOME `x` \\", "a\nb", "~", "#1", "*"})
    CHECK(test::run({"bash", "-c", "printf %s " + shell_word(word)}, 10s).out == word);
}

TEST_CASE("words of sbatch are quoted where they have to be", "[places]") {
  CHECK(sbatch_word("[rack1|rack2]") == "[rack1|rack2]");
  CHECK(sbatch_word("a b") == "\"a b\"");
  CHECK(sbatch_word("\"#\\'") == "\"\\\"#\\\\'\"");
  CHECK(sbatch_word("") == "\"\"");
}

TEST_CASE("a string in YAML stays one", "[places]") {
  CHECK(yaml_string("digits-x3k9p2") == "digits-x3k9p2");
  CHECK(yaml_string("/data") == "/data");
  for (const char* text :
       {"", "1", "1e3", "yes", "No", "null", "~", "a: b", "- a", "*x", "a#b", "{x}", "-", ".5", "a,b"})
    CHECK(yaml_string(text) == "\"" + std::string(text) + "\"");
  CHECK(yaml_string("a\"\\\n\x01") == R"("a\"\\\n\u0001")");
}

TEST_CASE("lines are kept readable in YAML where that keeps every byte", "[places]") {
  CHECK(yaml_lines("a\n\n  b\n", 2) == "|2\n    a\n\n      b");
  for (const char* text : {"", "\n", "no end", "two ends\n\n", "a\r\n", "\xc3\xa9\n", "\x01\n"})
    CHECK(yaml_lines(text, 2) == yaml_string(text));
}

TEST_CASE("Kubernetes leaves an argument alone", "[places]") {
  CHECK(without_expansion("$(HOME) $$ $5") == "$$(HOME) $$$$ $$5");
}

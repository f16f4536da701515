#include "agent/logs/own_log.h"

#include "tests/support/test.h"

namespace {

std::vector<std::string> logged(LogLevel level) {
  std::vector<std::string> lines;
  OwnLog log(level, [&](const std::string& line) { lines.push_back(line); });
  log.write(LogLevel::debug, "a {} detail");
  log.write(LogLevel::info, "a {} step");
  return lines;
}

}  // namespace

TEST_CASE("LOGLEVEL is read as Python reads it", "[own_log]") {
  CHECK(log_level_of("DEBUG") == LogLevel::debug);
  CHECK(log_level_of("info") == LogLevel::info);
  CHECK(log_level_of("WARNING") == LogLevel::warning);
  CHECK(log_level_of("CRITICAL") == LogLevel::warning);
  CHECK(log_level_of("10") == LogLevel::debug);
  CHECK(log_level_of("20") == LogLevel::info);
  CHECK(log_level_of("30") == LogLevel::warning);
  CHECK_FALSE(log_level_of(""));
  CHECK_FALSE(log_level_of("chatty"));
  CHECK_FALSE(log_level_of("10x"));
}

TEST_CASE("LOGLEVEL and -v together give the more talkative", "[own_log]") {
  CHECK(log_level("", false) == LogLevel::warning);
  CHECK(log_level("", true) == LogLevel::info);
  CHECK(log_level("DEBUG", true) == LogLevel::debug);
  CHECK(log_level("ERROR", true) == LogLevel::info);
}

TEST_CASE("the own log has a line with time and level for each step, and nothing unasked", "[own_log]") {
  CHECK(logged(LogLevel::warning).empty());
  REQUIRE(logged(LogLevel::info).size() == 1);
  CHECK(std::regex_match(logged(LogLevel::info).front(),
                         std::regex(R"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} ddprun info: a \{\} step\n)")));
  CHECK(logged(LogLevel::debug).size() == 2);
}

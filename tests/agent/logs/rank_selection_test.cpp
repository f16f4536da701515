#include "agent/logs/rank_selection.h"

#include "tests/support/catch.h"

using namespace ddprun;
using namespace ddprun::agent;

namespace {

StreamSpec spec(const std::string& text) { return std::get<StreamSpec>(parse_stream_spec(text)); }
RankSet set(const std::string& text) { return std::get<RankSet>(parse_rank_set(text)); }

}  // namespace

TEST_CASE("one number is for every rank", "[rank_selection]") {
  for (unsigned streams = 0; streams <= 3; ++streams) {
    CHECK(spec(std::to_string(streams)).of(0, 0) == streams);
    CHECK(spec(std::to_string(streams)).of(117, 2000) == streams);
    CHECK(spec(std::to_string(streams)).any() == (streams != 0));
  }
}

TEST_CASE("a mapping names ranks by one digit or many, by range, by global rank", "[rank_selection]") {
  const StreamSpec mixed = spec("0:1,10-12:2,g100:3");
  CHECK(mixed.of(0, 0) == kStdout);
  CHECK(mixed.of(1, 1) == kNoStream);
  CHECK(mixed.of(9, 9) == kNoStream);
  CHECK(mixed.of(10, 10) == kStderr);
  CHECK(mixed.of(12, 12) == kStderr);
  CHECK(mixed.of(13, 13) == kNoStream);
  CHECK(mixed.of(4, 100) == kBothStreams);
  CHECK(spec("0-9:3,4:0").of(4, 4) == kNoStream);
  CHECK_FALSE(spec("0:0").any());
}

TEST_CASE("an empty set of ranks is everybody, none is nobody", "[rank_selection]") {
  CHECK(set("").holds(3, 7));
  CHECK_FALSE(set("none").holds(0, 0));
  CHECK(set("0,2-3").holds(2, 10));
  CHECK_FALSE(set("0,2-3").holds(1, 0));
  CHECK(set("g16-31").holds(0, 16));
  CHECK_FALSE(set("g16-31").holds(16, 0));
}

TEST_CASE("what cannot be read is named", "[rank_selection]") {
  const auto complaint = [](const std::string& text) { return std::get<std::string>(parse_stream_spec(text)); };
  CHECK(complaint("4") == "'4' is not one of 0 (none), 1 (stdout), 2 (stderr), 3 (both)");
  CHECK(complaint("") == "'' is not one of 0 (none), 1 (stdout), 2 (stderr), 3 (both)");
  CHECK(complaint("0:1,1") == "'' is not one of 0 (none), 1 (stdout), 2 (stderr), 3 (both)");
  CHECK(complaint("0:1,x:2") == "'x' is neither a local rank (3), a range of them (2-5), nor global ranks (g3, g2-5)");
  for (const char* wrong : {"-1", "3-2", "1,,2", "1-", "g", "1.5", "99999999999", "a"}) {
    INFO(wrong);
    CHECK(std::holds_alternative<std::string>(parse_rank_set(wrong)));
  }
}

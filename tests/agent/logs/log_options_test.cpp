// Which way each stream takes, of which ranks, and what stands before its lines.
#include <ctime>

#include "agent/logs/line_prefix.h"
#include "agent/logs/rank_selection.h"
#include "agent/logs/stream_plan.h"
#include "tests/support/test.h"

using Way = StreamPlan::Way;

namespace {

StreamSpec streams(const std::string& text) { return std::get<StreamSpec>(parse_stream_spec(text)); }
RankSet ranks(const std::string& text) { return std::get<RankSet>(parse_rank_set(text)); }

struct Plans {
  StreamPlan out, err;
  friend bool operator==(const Plans&, const Plans&) = default;
};

// Of local rank 1, global rank 5.
Plans plans(const LogOptions& options, bool files = true) {
  return {plan_stream(options, kStdout, 1, 5, files), plan_stream(options, kStderr, 1, 5, files)};
}

const StreamPlan kInherited{};
const StreamPlan kOwnFile{.way = Way::own_file};
const StreamPlan kDiscarded{.way = Way::discarded};
const StreamPlan kThroughUs{.way = Way::through_us, .console = true};
const StreamPlan kRemembered{.way = Way::through_us};
const StreamPlan kBoth{.way = Way::through_us, .console = true, .file = true};
const StreamPlan kTee{.way = Way::through_us, .console = true, .file = true, .prefixed = true};
const StreamPlan kLimitedFile{.way = Way::through_us, .file = true};

}  // namespace

TEST_CASE("without options stdout is ours, and stderr passes through for the report", "[stream_plan]") {
  CHECK(plans({}) == Plans{kInherited, kThroughUs});
  const StreamPlan kept{.way = Way::through_us, .console = true, .as_it_comes = true};
  CHECK(plans({.keeps_output = true}) == Plans{kept, kThroughUs});  // for who asks for a rank's
}

TEST_CASE("a log folder alone keeps both streams beside the console", "[stream_plan]") {
  CHECK(plans({.log_dir = "logs"}) == Plans{kBoth, kBoth});
  CHECK(plans({.log_dir = "logs", .tree = LogTree::torchrun}) == Plans{kInherited, kThroughUs});
  CHECK(plans({.log_dir = "logs", .console_ranks = ranks("0")}) == Plans{kOwnFile, kOwnFile});
}

TEST_CASE("a redirected stream is the worker's own file, of the ranks that are meant", "[stream_plan]") {
  CHECK(plans({.log_dir = "logs", .redirects = streams("3")}) == Plans{kOwnFile, kOwnFile});
  CHECK(plans({.redirects = streams("1:2")}) == Plans{kInherited, kOwnFile});
  CHECK(plans({.redirects = streams("g5:1")}) == Plans{kOwnFile, kThroughUs});
  CHECK(plans({.log_dir = "logs", .redirects = streams("0:3")}) == Plans{kInherited, kThroughUs});
}

TEST_CASE("tee goes to file and console, and wins over a redirection", "[stream_plan]") {
  CHECK(plans({.tee = streams("3")}) == Plans{kTee, kTee});
  CHECK(plans({.redirects = streams("3"), .tee = streams("1")}) == Plans{kTee, kOwnFile});
}

TEST_CASE("a rank that the console leaves out keeps its files, and its stderr for the report", "[stream_plan]") {
  CHECK(plans({.console_ranks = ranks("0")}) == Plans{kDiscarded, kRemembered});
  CHECK(plans({.tee = streams("3"), .console_ranks = ranks("0")}) == Plans{kOwnFile, kOwnFile});
  CHECK(plans({.redirects = streams("1"), .console_ranks = ranks("none")}) == Plans{kOwnFile, kRemembered});
  CHECK(plans({.tee = streams("3"), .console_ranks = ranks("0,g5")}) == Plans{kTee, kTee});
}

TEST_CASE("without files a redirection is none, as under torchrun, and tee still has its prefix", "[stream_plan]") {
  const StreamPlan prefixed{.way = Way::through_us, .console = true, .prefixed = true};
  CHECK(plans({.log_dir = "/dev/null", .redirects = streams("3")}, false) == Plans{kInherited, kThroughUs});
  CHECK(plans({.log_dir = "/dev/null", .tee = streams("3"), .stdout_filters = {"x"}}, false) ==
        Plans{prefixed, prefixed});
  CHECK(plans({.log_dir = "logs"}, false) == Plans{kInherited, kThroughUs});
}

TEST_CASE("a file with a size limit is written by us", "[stream_plan]") {
  CHECK(plans({.redirects = streams("3"), .size_max = 1000}) == Plans{kLimitedFile, kLimitedFile});
  CHECK(plans({.tee = streams("3"), .console_ranks = ranks("0"), .size_max = 1000}) ==
        Plans{kLimitedFile, kLimitedFile});
}

TEST_CASE("filters copy what the console shows of a stream with a file", "[stream_plan]") {
  StreamPlan filtered = kTee;
  filtered.filtered = true;
  CHECK(plans({.tee = streams("3"), .stdout_filters = {"loss"}}) == Plans{filtered, kTee});
  CHECK(plans({.redirects = streams("3"), .stdout_filters = {"loss"}}) == Plans{kOwnFile, kOwnFile});
}

TEST_CASE("logs stay where a folder is named or a stream is asked to go to a file", "[stream_plan]") {
  CHECK_FALSE(keeps_logs({}));
  CHECK(keeps_logs({.log_dir = "logs"}));
  CHECK(keeps_logs({.tee = streams("0:1")}));
  CHECK(keeps_logs({.redirects = streams("2")}));
  CHECK_FALSE(keeps_logs({.log_dir = "/dev/null", .tee = streams("3")}));
}

TEST_CASE("a prefix names rank, host, role and time, and leaves other text alone", "[line_prefix]") {
  const PrefixNames names{.rank = 12, .local_rank = 4, .host = "node3", .role = "trainer"};
  const auto filled = [&](const std::string& pattern) { return LinePrefix(pattern, names).text({}); };
  CHECK(filled(LogOptions().prefix) == "[trainer4]:");
  CHECK(filled("${role} ${host}/${rank}|") == "trainer node3/12|");
  CHECK(filled("${hostname}:${rank}: ") == "node3:12: ");
  CHECK(filled("$rank-$local_rank ") == "12-4 ");
  CHECK(filled("$$rank ${unknown} ${rank $ $5 ${} $rankle") == "$rank ${unknown} ${rank $ $5 ${} $rankle");
  CHECK(filled("") == "");
  CHECK(LinePrefix("", names).empty());
  CHECK_FALSE(LinePrefix("${time}", names).empty());
}

TEST_CASE("the time in a prefix is that of the line", "[line_prefix]") {
  setenv("TZ", "UTC", 1);
  tzset();
  LinePrefix prefix("${rank} ${time}> ", {.rank = 1});
  const auto at = [](int ms) { return std::chrono::system_clock::time_point(std::chrono::milliseconds(ms)); };
  CHECK(prefix.text(at(1'042)) == "1 1970-01-01T00:00:01.042> ");
  CHECK(prefix.text(at(86'400'000)) == "1 1970-01-02T00:00:00.000> ");
}

TEST_CASE("ranks have colours of their own, and no prefix has none", "[line_prefix]") {
  LinePrefix zero = LinePrefix("0:", {}).coloured(0), one = LinePrefix("0:", {}).coloured(1);
  CHECK(zero.text({}) == "\x1b[36m0:\x1b[0m");
  CHECK(one.text({}) != zero.text({}));
  CHECK(LinePrefix("", {}).coloured(0).text({}).empty());
}

TEST_CASE("one number is for every rank", "[rank_selection]") {
  for (unsigned number = 0; number <= 3; ++number) {
    const StreamSpec spec = streams(std::to_string(number));
    CHECK(spec.of(0, 0) == number);
    CHECK(spec.of(117, 2000) == number);
    CHECK(spec.any() == (number != 0));
  }
}

TEST_CASE("a mapping names ranks by one digit or many, by range, by global rank", "[rank_selection]") {
  const StreamSpec mixed = streams("0:1,10-12:2,g100:3");
  CHECK(mixed.of(0, 0) == kStdout);
  CHECK(mixed.of(1, 1) == kNoStream);
  CHECK(mixed.of(9, 9) == kNoStream);
  CHECK(mixed.of(10, 10) == kStderr);
  CHECK(mixed.of(12, 12) == kStderr);
  CHECK(mixed.of(13, 13) == kNoStream);
  CHECK(mixed.of(4, 100) == kBothStreams);
  CHECK(streams("0-9:3,4:0").of(4, 4) == kNoStream);
  CHECK_FALSE(streams("0:0").any());
}

TEST_CASE("an empty set of ranks is everybody, none is nobody", "[rank_selection]") {
  CHECK(ranks("").holds(3, 7));
  CHECK_FALSE(ranks("none").holds(0, 0));
  CHECK(ranks("0,2-3").holds(2, 10));
  CHECK_FALSE(ranks("0,2-3").holds(1, 0));
  CHECK(ranks("g16-31").holds(0, 16));
  CHECK_FALSE(ranks("g16-31").holds(16, 0));
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

#include "launcher/config/values.h"

#include "rendezvous/base/spelling.h"
#include "rendezvous/base/suggestion.h"
#include "tests/support/test.h"

using settings::read_byte_size, settings::read_duration;

namespace {

template <class Read>
void check_refused(const Read& read, const std::vector<std::string>& texts) {
  for (const std::string& text : texts) {
    INFO(text);
    CHECK(std::holds_alternative<Wrong>(read(text)));
  }
}

Duration time(const std::string& text) { return std::get<Duration>(read_duration(text)); }
std::uint64_t size(const std::string& text) { return std::get<std::uint64_t>(read_byte_size(text)); }

}  // namespace

TEST_CASE("a time is seconds or has a unit", "[values]") {
  CHECK(time("25") == 25s);
  CHECK(time("2.5") == 2500ms);
  CHECK(time("0") == 0s);
  CHECK(time("500ms") == 500ms);
  CHECK(time("90s") == 90s);
  CHECK(time("15m") == 15min);
  CHECK(time("1.5h") == 90min);
  CHECK(time("1d") == 24h);
  check_refused(read_duration,
                {"", "s", "-1", "1x", "1 s", "nan", "inf", "1e3", "400d", "99999999999999999999", ".", "1.2.3"});
}

TEST_CASE("a size is bytes or has a unit", "[values]") {
  CHECK(size("0") == 0);
  CHECK(size("4096") == 4096);
  CHECK(size("1K") == 1024);
  CHECK(size("100M") == 100u << 20);
  CHECK(size("1.5GiB") == 3ull << 29);
  CHECK(size("2GB") == 2ull << 30);
  check_refused(read_byte_size, {"", "M", "-1", "1X", "9999999999T", "1MM"});
}

TEST_CASE("signals go by their names, with SIG or without, each once", "[values]") {
  const auto signals = std::get<std::vector<int>>(read_signals("SIGTERM, int,TERM"));
  CHECK(signals == std::vector<int>{SIGTERM, SIGINT});
  CHECK(signal_names(signals) == "SIGTERM,SIGINT");
  check_refused(read_signals, {"", "SIGKILL", "15", "SIGTERM,", "SIGSEGV"});
}

TEST_CASE("an endpoint is a host with or without a port, IPv6 in brackets", "[values]") {
  const auto read = [](const std::string& text) { return std::get<Endpoint>(read_endpoint(text)); };
  CHECK(read("node7").host == "node7");
  CHECK_FALSE(read("node7").port);
  CHECK(read("node7:0").port == 0);
  CHECK(read("[fd00::1]").host == "fd00::1");
  CHECK(read("[fd00::1]:65535").port == 65535);
  check_refused(read_endpoint, {"", ":1", "a:", "a:b", "a:65536", "a:-1", "[::1", "[::1]x", "[::1]:", "fd00::1",
                                "a b:1", "[]:1", "29500", "29500:1"});
  CHECK(read("10.0.0.4").host == "10.0.0.4");
  CHECK(read("7a").host == "7a");
}

TEST_CASE("settings of the rendezvous may stand in quotes that no shell took away", "[values]") {
  using Conf = std::map<std::string, std::string>;
  const auto read = [](const std::string& text) { return std::get<Conf>(read_rdzv_conf(text)); };
  const Conf both{{"join_timeout", "5"}, {"timeout", "6"}};
  CHECK(read("join_timeout=5,timeout=6") == both);
  CHECK(read("'join_timeout=5,timeout=6'") == both);
  CHECK(read(" \" join_timeout=5, timeout=6 \" ") == both);
  CHECK(read("''").empty());
  check_refused(read_rdzv_conf, {"'", "'timeout=5", "timeout=5'", "'timeout=5\""});
}

TEST_CASE("workers are a number or as many as there are CPUs or GPUs", "[values]") {
  const auto count = [](const std::string& text, const Machine& machine) {
    return worker_count(std::get<WorkerCount>(read_worker_count(text)), machine);
  };
  CHECK(count("3", {8}) == 3);
  CHECK(count("cpu", {8, [] { return 2; }}) == 8);
  CHECK(count("gpu", {8, [] { return 2; }}) == 2);
  CHECK(count("xpu", {8, [] { return 2; }}) == 2);  // as torchrun names those of Intel
  CHECK_FALSE(count("gpu", {8}));
  CHECK(count("auto", {8, [] { return 2; }}) == 2);
  CHECK(count("auto", {8}) == 8);
  check_refused(read_worker_count, {"0", "-1", "2x", "", "lots"});
}

TEST_CASE("nodes are a number, or the fewest and the most", "[values]") {
  CHECK(std::get<NodeCounts>(read_node_counts("1")) == NodeCounts{1, 1});
  CHECK(std::get<NodeCounts>(read_node_counts("2:20")) == NodeCounts{2, 20});
  CHECK(text_of(NodeCounts{2, 20}) == "2:20");
  CHECK(text_of(NodeCounts{3, 3}) == "3");
  check_refused(read_node_counts, {"2:20:30", "20:2", "0", "0:1", ":", "2:", "", "two"});
}

TEST_CASE("two commas in a list of filters are a comma in one", "[values]") {
  const auto read = [](const std::string& text) { return std::get<std::vector<std::string>>(read_filters(text)); };
  CHECK(read("") == std::vector<std::string>{});
  CHECK(read("a") == std::vector<std::string>{"a"});
  CHECK(read("apple,orange") == std::vector<std::string>{"apple", "orange"});
  CHECK(read("a,,b,c") == std::vector<std::string>{"a,b", "c"});
  CHECK(read("a,,,b") == std::vector<std::string>{"a,", "b"});
  CHECK(read(",,") == std::vector<std::string>{","});
  check_refused(read_filters, {",", "a,", ",a"});
}

TEST_CASE("the nearest word is near, or there is none", "[spelling]") {
  CHECK(distance("kitten", "sitting") == 3);
  CHECK(distance("", "abc") == 3);
  CHECK(distance("mnist", "minst") == 1);
  CHECK(distance("ca", "abc") == 3);
  CHECK(nearest("SIGTREM", {"SIGINT", "SIGTERM"}) == "SIGTERM");
  CHECK(nearest("frobnicate", {"role", "redirects"}).empty());
  CHECK(nearest("x", {"y"}).empty());
  CHECK(did_you_mean("grup", {"rank", "group"}) == " Did you mean 'group'?");
  CHECK(did_you_mean("").empty());
  CHECK(no_option("--jsn=1", {"--json", "--wait"}, "ddprun x") == "there is no option --jsn. Did you mean '--json'?");
  CHECK(no_option("--frob", {"--json"}, "ddprun x") == "there is no option --frob; ddprun x --help lists them.");
  CHECK(listed({"a", "b", "c"}) == "a, b or c");
  CHECK(wrapped("a bc def", 4) == std::vector<std::string>{"a bc", "def"});
}

TEST_CASE("a limit of a hang is for all phases or for each", "[values]") {
  const auto read = [](const std::string& text) { return std::get<HangLimits>(read_hang_limits(text)); };
  CHECK(read("auto") == HangLimits{});
  CHECK(read("off").all.off);
  CHECK(read("30s").of(Activity::load).time == Duration(30s));
  const HangLimits mixed = read("5m, save=20m,wait=off,load=auto");
  CHECK(mixed.of(Activity::compute).time == Duration(5min));
  CHECK(mixed.of(Activity::save).time == Duration(20min));
  CHECK(mixed.of(Activity::wait).off);
  CHECK(mixed.of(Activity::load) == HangLimit{});
  check_refused(read_hang_limits, {"", "0", "never", "save", "save=", "save=x", "ended=1m", "lod=1m", "5m,,1m"});
}

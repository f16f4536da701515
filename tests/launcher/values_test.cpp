#include "launcher/values.h"

#include "launcher/visible_gpus.h"
#include "rendezvous/base/spelling.h"
#include "tests/support/catch.h"
#include "tests/support/command.h"

using namespace ddprun;
using namespace ddprun::launcher;
using settings::read_byte_size, settings::read_duration;
using namespace std::chrono_literals;
using ddprun::test::TempFolder;

namespace {

template <class Value>
bool wrong(const Read<Value>& read) {
  return std::holds_alternative<Wrong>(read);
}

Duration time(const std::string& text) { return std::get<Duration>(read_duration(text)); }
std::uint64_t size(const std::string& text) { return std::get<std::uint64_t>(read_byte_size(text)); }

const std::vector<std::string> kFour{"GPU-1a2b", "GPU-1a3c", "GPU-2d4e", "GPU-5f60"};

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
  for (const char* text :
       {"", "s", "-1", "1x", "1 s", "nan", "inf", "1e3", "400d", "99999999999999999999", ".", "1.2.3"}) {
    INFO(text);
    CHECK(wrong(read_duration(text)));
  }
}

TEST_CASE("a size is bytes or has a unit", "[values]") {
  CHECK(size("0") == 0);
  CHECK(size("4096") == 4096);
  CHECK(size("1K") == 1024);
  CHECK(size("100M") == 100u << 20);
  CHECK(size("1.5GiB") == 3ull << 29);
  CHECK(size("2GB") == 2ull << 30);
  for (const char* text : {"", "M", "-1", "1X", "9999999999T", "1MM"}) {
    INFO(text);
    CHECK(wrong(read_byte_size(text)));
  }
}

TEST_CASE("signals go by their names, with SIG or without, each once", "[values]") {
  const auto signals = std::get<std::vector<int>>(read_signals("SIGTERM, int,TERM"));
  CHECK(signals == std::vector<int>{SIGTERM, SIGINT});
  CHECK(signal_names(signals) == "SIGTERM,SIGINT");
  for (const char* text : {"", "SIGKILL", "15", "SIGTERM,", "SIGSEGV"}) CHECK(wrong(read_signals(text)));
}

TEST_CASE("an endpoint is a host with or without a port, IPv6 in brackets", "[values]") {
  const auto read = [](const std::string& text) { return std::get<Endpoint>(read_endpoint(text)); };
  CHECK(read("node7").host == "node7");
  CHECK_FALSE(read("node7").port);
  CHECK(read("node7:0").port == 0);
  CHECK(read("[fd00::1]").host == "fd00::1");
  CHECK(read("[fd00::1]:65535").port == 65535);
  for (const char* text :
       {"", ":1", "a:", "a:b", "a:65536", "a:-1", "[::1", "[::1]x", "[::1]:", "fd00::1", "a b:1", "[]:1"}) {
    INFO(text);
    CHECK(wrong(read_endpoint(text)));
  }
}

TEST_CASE("settings of the rendezvous may stand in quotes that no shell took away", "[values]") {
  using Conf = std::map<std::string, std::string>;
  const auto read = [](const std::string& text) { return std::get<Conf>(read_rdzv_conf(text)); };
  const Conf both{{"join_timeout", "5"}, {"timeout", "6"}};
  CHECK(read("join_timeout=5,timeout=6") == both);
  CHECK(read("'join_timeout=5,timeout=6'") == both);
  CHECK(read(" \" join_timeout=5, timeout=6 \" ") == both);
  CHECK(read("''").empty());
  for (const char* text : {"'", "'timeout=5", "timeout=5'", "'timeout=5\""}) CHECK(wrong(read_rdzv_conf(text)));
}

TEST_CASE("workers are a number or as many as there are CPUs or GPUs", "[values]") {
  const auto count = [](const std::string& text, const Machine& machine) {
    return worker_count(std::get<WorkerCount>(read_worker_count(text)), machine);
  };
  CHECK(count("3", {8}) == 3);
  CHECK(count("cpu", {8, [] { return 2; }}) == 8);
  CHECK(count("gpu", {8, [] { return 2; }}) == 2);
  CHECK_FALSE(count("gpu", {8}));
  CHECK(count("auto", {8, [] { return 2; }}) == 2);
  CHECK(count("auto", {8}) == 8);
  for (const char* text : {"0", "-1", "2x", "", "lots"}) CHECK(wrong(read_worker_count(text)));
}

TEST_CASE("nodes are a number, or the fewest and the most", "[values]") {
  CHECK(std::get<NodeCounts>(read_node_counts("1")) == NodeCounts{1, 1});
  CHECK(std::get<NodeCounts>(read_node_counts("2:20")) == NodeCounts{2, 20});
  CHECK(text_of(NodeCounts{2, 20}) == "2:20");
  CHECK(text_of(NodeCounts{3, 3}) == "3");
  for (const char* text : {"2:20:30", "20:2", "0", "0:1", ":", "2:", "", "two"}) CHECK(wrong(read_node_counts(text)));
}

TEST_CASE("two commas in a list of filters are a comma in one", "[values]") {
  const auto read = [](const std::string& text) { return std::get<std::vector<std::string>>(read_filters(text)); };
  CHECK(read("") == std::vector<std::string>{});
  CHECK(read("a") == std::vector<std::string>{"a"});
  CHECK(read("apple,orange") == std::vector<std::string>{"apple", "orange"});
  CHECK(read("a,,b,c") == std::vector<std::string>{"a,b", "c"});
  CHECK(read("a,,,b") == std::vector<std::string>{"a,", "b"});
  CHECK(read(",,") == std::vector<std::string>{","});
  for (const char* text : {",", "a,", ",a"}) CHECK(wrong(read_filters(text)));
}

TEST_CASE("the nearest word is near, or there is none", "[spelling]") {
  CHECK(distance("kitten", "sitting") == 3);
  CHECK(distance("", "abc") == 3);
  CHECK(nearest("SIGTREM", {"SIGINT", "SIGTERM"}) == "SIGTERM");
  CHECK(nearest("frobnicate", {"role", "redirects"}).empty());
  CHECK(nearest("x", {"y"}).empty());
  CHECK(did_you_mean("grup", {"rank", "group"}) == " Did you mean 'group'?");
  CHECK(listed({"a", "b", "c"}) == "a, b or c");
  CHECK(wrapped("a bc def", 4) == std::vector<std::string>{"a bc", "def"});
}

TEST_CASE("a limit of a hang is for all phases or for each", "[values]") {
  using rendezvous::Activity;
  const auto read = [](const std::string& text) { return std::get<agent::HangLimits>(read_hang_limits(text)); };
  CHECK(read("auto") == agent::HangLimits{});
  CHECK(read("off").all.off);
  CHECK_FALSE(read("off").any());
  CHECK(read("30s").of(Activity::load).time == Duration(30s));
  const agent::HangLimits mixed = read("5m, save=20m,wait=off,load=auto");
  CHECK(mixed.of(Activity::compute).time == Duration(5min));
  CHECK(mixed.of(Activity::save).time == Duration(20min));
  CHECK(mixed.of(Activity::wait).off);
  CHECK(mixed.of(Activity::load) == agent::HangLimit{});
  for (const char* text : {"", "0", "never", "save", "save=", "save=x", "ended=1m", "lod=1m", "5m,,1m"}) {
    INFO(text);
    CHECK(wrong(read_hang_limits(text)));
  }
}

TEST_CASE("entries of CUDA_VISIBLE_DEVICES are counted as torch counts them", "[gpus]") {
  CHECK(count_visible(nullptr, kFour) == 4);
  CHECK(count_visible("", kFour) == 0);
  CHECK(count_visible("-1", kFour) == 0);
  CHECK(count_visible("0,1", kFour) == 2);
  CHECK(count_visible("3, 0", kFour) == 2);
  CHECK(count_visible("0,-1,1", kFour) == 1);  // ends the list
  CHECK(count_visible("0,7,1", kFour) == 1);   // there is no such GPU
  CHECK(count_visible("7", kFour) == 0);
  CHECK(count_visible("1,1", kFour) == 0);            // twice
  CHECK(count_visible("1gpu2,2ampere", kFour) == 2);  // as strtoul
  CHECK(count_visible("NoDevFiles", kFour) == 0);     // what Slurm writes for none
  CHECK(count_visible("GPU-2d4e,GPU-1a2b", kFour) == 2);
  CHECK(count_visible("GPU-2", kFour) == 1);
  CHECK(count_visible("GPU-1a", kFour) == 0);  // two of them
  CHECK(count_visible("GPU-2d4e,GPU-2d", kFour) == 0);
  CHECK(count_visible("GPU-2d4e,0", kFour) == 1);
  CHECK(count_visible("GPU-none", kFour) == 0);
  CHECK(count_visible("MIG-aa,MIG-bb", kFour) == 1);  // CUDA shows one instance to a process
  CHECK(count_visible("MIG-aa", {}) == 0);
  CHECK(count_visible("0", {}) == 0);
  CHECK(count_visible("GPU-anything,GPU-else", {"", "", ""}) == 2);  // without NVML
}

TEST_CASE("without NVML GPUs are the devices with a number, whichever they are", "[gpus]") {
  const TempFolder devices;
  for (const char* name : {"nvidia3", "nvidia5", "nvidia10", "nvidiactl", "nvidia-uvm", "null"})
    devices.write(name, "");
  CHECK(gpus_by_files(devices.path()).size() == 3);
  CHECK(gpus_by_files(devices / "none").empty());
}

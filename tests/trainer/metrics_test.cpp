#include "trainer/metrics/metrics.h"

#include <sys/resource.h>

#include <nlohmann/json.hpp>

#include "rendezvous/base/error.h"
#include "tests/support/test.h"
#include "trainer/metrics/tensorboard.h"

using Step = std::optional<std::int64_t>;

namespace {

constexpr double kNow = 1754550000;

MetricsRow row(std::int64_t step, double loss) {
  return {.step = step, .epoch = 1, .values = {{"loss", loss}}, .wall_time = kNow + 0.5};
}

// A run that trains from a step to another one. It ends as a kill ends it: nothing is done at its end.
void run(const MetricsOptions& options, std::int64_t first, std::int64_t last, double loss, double now = kNow) {
  MetricsLog metrics(options, now);
  for (std::int64_t step = first; step <= last; ++step) metrics.write(row(step, loss));
}

MetricsOptions json_only(const std::string& path, Step resumed_step = {}) {
  return {.jsonl = path, .resumed_step = resumed_step};
}

// step:loss
std::string steps_in(const std::string& path) {
  std::istringstream lines(test::read_file(path));
  std::string result;
  for (std::string line; std::getline(lines, line);) {
    const auto object = nlohmann::json::parse(line);
    result += (result.empty() ? "" : " ") + object["step"].dump() + ":" + object["loss"].dump();
  }
  return result;
}

std::string as_tensorboard_reads(const std::string& folder) {
  const auto ended =
      test::run({test::venv_python(), test::source_folder() + "/tests/trainer/tensorboard_peer.py", folder},
                std::chrono::seconds(60));
  CHECK(ended == test::exited(0));
  return ended.out;
}

void append(const fs::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::app | std::ios::binary) << bytes;
}

// No file of this process grows beyond so many bytes, as on a disk that is full.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) {
    before_handler_ = std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FullDisk() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, before_handler_);
  }

 private:
  rlimit before_{};
  void (*before_handler_)(int);
};

std::string refusal(const std::string& path, Step resumed_step = 5) {
  return test::error_text<Error>([&] { MetricsLog(json_only(path, resumed_step), kNow); });
}

}  // namespace

TEST_CASE("a row of metrics is one line of strict JSON", "[metrics]") {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  CHECK(json_line({.step = 17, .epoch = 2, .values = {{"loss", 0.1}, {"lr", 1e-300}}, .wall_time = 1754550000.25}) ==
        R"({"step":17,"epoch":2,"time":1754550000.25,"loss":0.1,"lr":1e-300})");
  CHECK(json_line({.values = {{"a \"b\"\n", std::nan("")}, {"c", kInfinity}, {"\xff", -kInfinity}}}) ==
        "{\"step\":0,\"epoch\":0,\"time\":0.0,\"a \\\"b\\\"\\n\":null,\"c\":null,\"\xef\xbf\xbd\":null}");
}

TEST_CASE("rows are in the files as soon as they are written", "[metrics]") {
  const TempFolder folder;
  MetricsLog metrics({.jsonl = folder / "m.jsonl", .tensorboard = folder / "runs/1"}, kNow);
  metrics.write(row(1, 0.5));
  CHECK(steps_in(folder / "m.jsonl") == "1:0.5");
  CHECK(as_tensorboard_reads(folder / "runs/1") == "epoch 1 1 1754550000.5\nloss 1 0.5 1754550000.5\n");
}

TEST_CASE("a run that was killed and resumed has each step once, for readers of JSON and in TensorBoard", "[metrics]") {
  const TempFolder folder;
  MetricsOptions options{.jsonl = folder / "m.jsonl", .tensorboard = folder / "runs"};
  run(options, 1, 5, 0.25);
  append(folder / "m.jsonl", R"({"step":6,"ep)");  // killed in the midst of a row
  append(fs::directory_iterator(folder / "runs")->path(), std::string("\x20\0\0\0\0\0\0\0\x01", 9));
  options.resumed_step = 3;
  run(options, 4, 6, 0.5, kNow - 100);  // and its clock was set back
  CHECK(steps_in(folder / "m.jsonl") == "1:0.25 2:0.25 3:0.25 4:0.5 5:0.5 6:0.5");
  std::string expected;
  for (int step = 1; step <= 6; ++step) expected += "epoch " + std::to_string(step) + " 1 1754550000.5\n";
  for (int step = 1; step <= 6; ++step)
    expected += "loss " + std::to_string(step) + (step <= 3 ? " 0.25" : " 0.5") + " 1754550000.5\n";
  CHECK(as_tensorboard_reads(folder / "runs") == expected);
}

TEST_CASE("TensorBoard gets numbers that JSON has not, and steps of any size", "[metrics]") {
  const TempFolder folder;
  MetricsLog metrics({.tensorboard = folder / "runs"}, kNow);
  metrics.write(row(1, std::nan("")));
  metrics.write(row(200, std::numeric_limits<double>::infinity()));
  metrics.write(row(std::int64_t{1} << 40, 1e300));  // more than a float holds
  metrics.write({.step = (std::int64_t{1} << 40) + 1, .values = {{std::string(300, 'n'), -1.5}}, .wall_time = kNow});
  const std::string read = as_tensorboard_reads(folder / "runs");
  CHECK_THAT(read, Contains("loss 1 nan ") && Contains("loss 200 inf ") && Contains("loss 1099511627776 inf "));
  CHECK_THAT(read, Contains(std::string(300, 'n') + " 1099511627777 -1.5 1754550000.0\n"));
}

TEST_CASE("a run from its beginning drops all rows of an older one", "[metrics]") {
  const TempFolder folder;
  MetricsOptions options{.jsonl = folder / "m.jsonl", .tensorboard = folder / "runs"};
  run(options, 0, 5, 0.25);
  run(options, 0, 1, 0.5);
  CHECK(steps_in(folder / "m.jsonl") == "0:0.5 1:0.5");
  CHECK_THAT(as_tensorboard_reads(folder / "runs"), EndsWith("loss 0 0.5 1754550000.5\nloss 1 0.5 1754550000.5\n") &&
                                                        !Contains("0.25") && !Contains("loss 2"));
}

TEST_CASE("a torn last line of metrics is dropped, wherever it was torn", "[metrics]") {
  const TempFolder folder;
  const std::string whole = json_line(row(1, 0.5)) + "\n", torn = json_line(row(2, 0.5));
  for (std::size_t size = 0; size <= torn.size(); ++size)
    for (const std::size_t zeros : {0, 9}) {
      const auto path = folder.write("m.jsonl", whole + torn.substr(0, size) + std::string(zeros, '\0'));
      run(json_only(path, 2), 3, 3, 0.25);
      CHECK(steps_in(path) == "1:0.5 3:0.25");
    }
}

TEST_CASE("rows of one step stay together, and rows of the resumed step stay", "[metrics]") {
  const TempFolder folder;
  std::string lines;
  for (const int step : {1, 2, 2, 3, 3}) lines += json_line(row(step, 0.5)) + "\n";
  for (const auto& [resumed, left] : std::map<int, std::string>{
           {0, ""}, {1, "1:0.5"}, {2, "1:0.5 2:0.5 2:0.5"}, {9, "1:0.5 2:0.5 2:0.5 3:0.5 3:0.5"}}) {
    const auto path = folder.write("m.jsonl", lines);
    MetricsLog(json_only(path, resumed), kNow);
    CHECK(steps_in(path) == left);
  }
}

TEST_CASE("a long file of metrics is read piece by piece", "[metrics]") {
  const TempFolder folder;
  run(json_only(folder / "m.jsonl"), 1, 4000, 0.5);
  REQUIRE(fs::file_size(folder / "m.jsonl") > 200'000);
  run(json_only(folder / "m.jsonl", 3000), 3001, 3001, 0.25);
  CHECK_THAT(steps_in(folder / "m.jsonl"), EndsWith(" 2999:0.5 3000:0.5 3001:0.25"));
}

TEST_CASE("a file that is no metrics file is refused and left alone", "[metrics]") {
  const TempFolder folder;
  const std::string good = json_line(row(1, 0.5)) + "\n";
  const auto [text, why] = GENERATE_COPY(table<std::string, std::string>({
      {"notes\n", "its line 1 is not a line of metrics"},
      {"notes without an end", "its line 1 is not a line of metrics"},
      {good + "{\"loss\":1}\n", "its line 2 is not a line of metrics"},
      {good + "{\"step\":1.5}\n", "its line 2 is not a line of metrics"},
      {good + "{\"step\":2,\"more\":{}}\n", "its line 2 is not a line of metrics"},
      {good + "[" + std::string(100'000, '[') + "\n", "its line 2 is not a line of metrics"},
      {good + "\n", "its line 2 is not a line of metrics"},
      {good + "{\"step\":0}\n", "its line 2 goes back from step 1 to 0"},
      {good + "{\"step\":" + std::string(2 << 20, '1'), "its line 2 is longer than 1048576 bytes"},
      {good + std::string(5, '\0') + "x", "its line 2 is not a line of metrics"},
  }));
  const auto path = folder.write("m.jsonl", text);
  CHECK(refusal(path) ==
        "cannot add metrics to " + path.string() + ": " + why + ". It is left as it is: name another file.");
  CHECK(refusal(path, std::nullopt) != "");
  CHECK(test::read_file(path) == text);
}

TEST_CASE("what is no regular file is refused at once", "[metrics]") {
  const TempFolder folder;
  REQUIRE(mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK(refusal(folder / "pipe") ==
        "cannot keep metrics in " + (folder / "pipe").string() + ": it is not a regular file. Name another one.");
}

TEST_CASE("metrics that cannot be written are told once per file, and the run goes on", "[metrics]") {
  const TempFolder folder;
  folder.write("taken", "a file");
  std::vector<std::string> said;
  MetricsLog metrics({.jsonl = folder / "nowhere/m.jsonl",
                      .tensorboard = folder / "taken/runs",
                      .say = [&](const std::string& sentence) { said.push_back(sentence); }},
                     kNow);
  for (int step = 1; step < 4; ++step) metrics.write(row(step, 0.5));
  REQUIRE(said.size() == 2);
  CHECK_THAT(said[0], StartsWith("cannot write the metrics file " + (folder / "nowhere/m.jsonl").string() +
                                 ": No such file or directory. The training goes on without these metrics; "));
  CHECK_THAT(said[1], StartsWith("cannot write metrics for TensorBoard into " + (folder / "taken/runs").string() +
                                 ": Not a directory. "));
}

TEST_CASE("a disk that is full for a while costs the rows of that while, and no other one", "[metrics]") {
  const TempFolder folder;
  std::vector<std::string> said;
  MetricsLog metrics({.jsonl = folder / "m.jsonl",
                      .tensorboard = folder / "runs",
                      .say = [&](const std::string& sentence) { said.push_back(sentence); }},
                     kNow);
  metrics.write(row(1, 0.5));
  {
    const FullDisk full(fs::file_size(folder / "m.jsonl") + 10);  // a row and some of the next one
    metrics.write(row(2, 0.5));
    metrics.write(row(3, 0.5));
  }
  metrics.write(row(4, 0.25));
  CHECK(said.size() == 2);
  CHECK(steps_in(folder / "m.jsonl") == "1:0.5 4:0.25");
  CHECK_THAT(as_tensorboard_reads(folder / "runs"), EndsWith("loss 1 0.5 1754550000.5\nloss 4 0.25 1754550000.5\n"));
}

TEST_CASE("the CRC-32C of the published examples is theirs", "[metrics]") {
  CHECK(crc32c("123456789") == 0xe3069283);
  // RFC 3720, appendix B.4, whose bytes stand in the order of the wire.
  CHECK(crc32c(std::string(32, '\0')) == 0x8a9136aa);
  CHECK(crc32c(std::string(32, '\xff')) == 0x62a8ab43);
  std::string rising, falling;
  for (char i = 0; i < 32; ++i) rising += i, falling.insert(falling.begin(), i);
  CHECK(crc32c(rising) == 0x46dd794e);
  CHECK(crc32c(falling) == 0x113fdb5c);
}

TEST_CASE("an event file's name comes after those that are there, whatever the clock says", "[metrics]") {
  CHECK(event_file_name({}, 1754550000, "host", 7) == "events.out.tfevents.1754550000.host.7");
  CHECK(event_file_name({"events.out.tfevents.1754550000.host.10"}, 1754550000, "host", 9) ==
        "events.out.tfevents.1754550001.host.9");
  CHECK(event_file_name({"events.out.tfevents.1754550900.a", "events.out.tfevents.1754550100.b"}, 1754550000, "h", 1) ==
        "events.out.tfevents.1754550901.h.1");
  CHECK(event_file_name({}, 5, "h", 1) == "events.out.tfevents.0000000005.h.1");
  const std::vector<std::string> others{"notes.txt", "events.out.tfevents.",
                                        "events.out.tfevents.99999999999999999999.h",
                                        "events.out.tfevents.9999999999999.h", "events.out.tfevents.1754550005"};
  CHECK(event_file_name(others, 1754550000, "h", 1) == "events.out.tfevents.1754550000.h.1");
}

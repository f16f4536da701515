#include "agent/desk/last_output.h"

#include <condition_variable>

#include "tests/support/test.h"

namespace {

// Files of which the test says when they answer.
struct Files {
  std::map<pid_t, std::vector<FileOutput>> read(const std::vector<pid_t>& workers) {
    std::unique_lock lock(mutex);
    ++reads;
    changed.notify_all();
    changed.wait(lock, [&] { return answers; });
    std::map<pid_t, std::vector<FileOutput>> out;
    for (const pid_t worker : workers)
      out[worker] = {{true, {{1, 2}, std::chrono::system_clock::now(), "in the file\n"}}};
    return out;
  }
  void answer(bool now) {
    const std::lock_guard lock(mutex);
    answers = now;
    changed.notify_all();
  }
  void wait_for_read() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return reads > 0; });
  }

  std::mutex mutex;
  std::condition_variable changed;
  bool answers = true;
  int reads = 0;
};

struct Rig {
  std::shared_ptr<Files> files = std::make_shared<Files>();
  asio::io_context io;
  bool runs = true;
  std::vector<OutputEnd> passed = {};
  LastOutput output{io, [this](int, const RankView&) { return runs ? std::optional(passed) : std::nullopt; },
                    [files = files](const std::vector<pid_t>& workers) { return files->read(workers); }};

  std::vector<NodeReport> reports = {};
  void ask(const NodeReport& report) {
    output.add_to(report, [this](NodeReport completed) { reports.push_back(std::move(completed)); });
  }
  std::string line() {
    io.restart();
    io.run();
    const auto& lines = reports.back().last_lines;
    return lines.empty() ? "none" : lines.front().text;
  }
};

const NodeReport kReport{.round = 1, .ranks = {{.rank = 3, .pid = 100}}};

}  // namespace

TEST_CASE("a report gets what is in files and what has passed through ddprun", "[files]") {
  Rig rig;
  rig.ask(kReport);
  CHECK(rig.line() == "in the file");
  rig.passed = {{.age = -1h, .bytes = "newer\n"}};
  rig.ask(kReport);
  CHECK(rig.line() == "newer");
  rig.runs = false;  // another process may have its number by now
  rig.ask(kReport);
  CHECK(rig.line() == "none");
}

TEST_CASE("without workers nothing is read", "[files]") {
  Rig rig;
  rig.ask({.round = 1, .ranks = {{.rank = 3}}});
  CHECK(rig.reports.size() == 1);
  CHECK(rig.files->reads == 0);
}

TEST_CASE("files that do not answer delay a report for a moment, and the next one not at all", "[files]") {
  Rig rig;
  rig.files->answer(false);
  rig.ask(kReport);
  CHECK(rig.reports.empty());
  CHECK(rig.line() == "none");
  rig.passed = {{.bytes = "through the pipe\n"}};
  rig.ask(kReport);
  CHECK(rig.reports.size() == 2);
  CHECK(rig.line() == "through the pipe");
  rig.passed.clear();
  rig.files->answer(true);
  CHECK(eventually([&] { return rig.ask(kReport), rig.line() == "in the file"; }, 20s));
}

TEST_CASE("who ends while files do not answer is not held", "[files]") {
  const auto files = [] {
    Rig rig;
    rig.files->answer(false);
    rig.ask(kReport);
    rig.files->wait_for_read();
    return rig.files;
  }();
  files->answer(true);
}

TEST_CASE("of what a wrapper has started only files are read that others may read, and of the worker all", "[files]") {
  const TempFolder folder;
  const std::string log = folder.write("log", ""), key = folder.write("key", ""), own = folder.write("own", "");
  chmod(key.c_str(), 0600);
  chmod(own.c_str(), 0600);
  const std::string script =
      "exec >own; echo of the worker; sh -c 'echo secret; exec sleep 60' >key & "
      "sh -c 'echo a line; exec sleep 60' >log & wait";
  Command worker({"sh", "-c", script}, {.cwd = folder.path()});
  REQUIRE(test::eventually([&] { return fs::file_size(log) > 0 && fs::file_size(key) > 0; }, 20s));
  std::set<std::string> seen;
  REQUIRE(test::eventually(
      [&] {
        seen.clear();
        const auto read = read_output({worker.pid()});
        for (const auto& [pid, files] : read)
          for (const FileOutput& one : files) seen.insert(one.end.bytes);
        return seen.contains("a line\n");
      },
      20s));
  CHECK(seen == std::set<std::string>{"a line\n", "of the worker\n"});
}

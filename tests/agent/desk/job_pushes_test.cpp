#include "agent/desk/job_pushes.h"

#include "tests/support/test.h"

TEST_CASE("progress is pushed only by the node of rank 0, and not without a step, a token or a URL", "[push]") {
  asio::io_context io;
  const TempFolder folder;
  std::optional<NodeReport> report;
  const auto said_of = [&](const std::string& url, const std::string& token) {
    std::string said;
    bool done = false;
    const KubeflowOptions to{.url = url, .token_file = folder.write("token", token)};
    FileThread files([&](const std::string& sentence) { said += sentence; });
    JobPushes pushes(
        io, {.kubeflow = to}, files,
        {{}, [&] { return report; }, [] { return false; }, [&](const std::string& sentence) { said += sentence; }});
    pushes.start();
    pushes.push_last([&] { done = true; });
    CHECK(eventually([&] { return io.restart(), io.poll(), done; }, 20s));
    return said;
  };
  CHECK(said_of("http://127.0.0.1/", " \n").empty());
  report.emplace();
  CHECK(said_of("http://127.0.0.1/", " \n").empty());
  report->ranks = {{.step = 7}};
  CHECK(has(said_of("http://127.0.0.1/", " \n"), "is not one line of ASCII"));
  CHECK(has(said_of("127.0.0.1", "secret"), "is no URL"));
}

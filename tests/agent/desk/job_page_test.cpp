// With a browser that is a socket on loopback.
#include "agent/desk/job_page.h"

#include <asio/write.hpp>
#include <nlohmann/json.hpp>

#include "tests/support/test.h"

namespace {

struct Rig {
  void open() {
    page.open([this](const HttpResponse& response) { opened.push_back(response.body); });
  }
  void answer(const std::string& state) { asked.back()({{"state", state}}); }
  // What has come to the browser since the last time, up to `text` at least.
  std::string browser_gets(const std::string& text) {
    std::string got;
    const auto has_come = [&] {
      char bytes[4096];
      asio::error_code ignored;
      got.append(bytes, browser.read_some(asio::buffer(bytes), ignored));
      return io.restart(), io.poll(), has(got, text);
    };
    CHECK(eventually(has_come, 20s));
    return got;
  }

  asio::io_context io;
  std::vector<std::function<void(const nlohmann::json&)>> asked;
  Words opened;
  NodeReport report;
  bool asked_for_lines = false;
  HttpServer server{io, open_listener("127.0.0.1", 0),
                    [this](const HttpRequest&, const HttpServer::Answer& answer) { page.open(answer); }};
  HistoryKeeper history{io, {[this] { return report; }, [this] { return page.is_open(); }}};
  JobPage page{io, server, history, [this](bool lines, const auto& take) {
                 asked.push_back(take);
                 asked_for_lines = lines;
               }};
  asio::ip::tcp::socket browser{io};
};

}  // namespace

TEST_CASE("an open page is told what changes, once, and the job's end last", "[desk]") {
  Rig rig;
  rig.browser.connect({asio::ip::address_v4::loopback(), rig.server.port()});
  asio::write(rig.browser, asio::buffer(std::string("GET /live HTTP/1.1\r\nHost: x\r\n\r\n")));
  rig.browser.non_blocking(true);
  REQUIRE(eventually([&] { return rig.io.restart(), rig.io.poll(), !rig.asked.empty(); }, 20s));
  CHECK(rig.asked_for_lines);
  rig.open();
  CHECK(rig.asked.size() == 1);  // it gets the same answer
  rig.answer("waiting");
  CHECK(has(rig.opened.at(0), "waiting"));
  CHECK(has(rig.browser_gets("waiting"), "event: whole"));
  for (const char* state : {"running", "running", "stopping"}) rig.open(), rig.answer(state);
  CHECK(count(rig.browser_gets("stopping"), "event: change") == 2);
  rig.open();
  rig.page.job_ended({});
  rig.answer("lost");  // too late
  CHECK(has(rig.opened.back(), "event: ended"));
  rig.server.append_to_streams(": last");
  const std::string got = rig.browser_gets(": last");
  CHECK(has(got, "event: ended"));
  CHECK_FALSE(has(got, "lost"));
}

TEST_CASE("a sample is taken every two seconds from the first step on, whether a page is open or not",
          "[desk][waits]") {
  Rig rig;
  rig.report = {.round = 1, .step_us = 500'000, .ranks = {{.rank = 0, .activity = Activity::compute, .step = 7}}};
  rig.history.workers_run();
  rig.history.workers_run();  // of the next round
  const TimePoint begin = Clock::now();
  REQUIRE(eventually([&] { return rig.io.restart(), rig.io.poll(), !rig.history.history().samples().empty(); }, 20s));
  CHECK(Clock::now() - begin >= 2s);
  CHECK(rig.history.history().samples().back().step == 7);
  CHECK(rig.history.history().samples().back().steps_per_second == 2.0);
  CHECK(rig.asked.empty());  // nobody else is asked
}

TEST_CASE("a failure that ended a round is known afterwards, a planned end is none", "[desk]") {
  Rig rig;
  rig.history.round_formed({.round = 1, .group_world_size = 2, .world_size = 4});
  CHECK_FALSE(rig.history.last_failure());
  Failure killed{.rank = 1, .status = {.signal = 9}, .kind = FailureClass::crash, .host = "n1"};
  rig.history.round_ended({.round = 1, .reason = "a worker failed", .cause = killed});
  rig.history.round_formed({.round = 2, .group_world_size = 2, .world_size = 4});
  rig.history.round_ended({.round = 2, .planned = true, .reason = "a node has joined"});
  REQUIRE(rig.history.last_failure());
  CHECK(rig.history.last_failure()->text == "rank 1 on n1 was killed by SIGKILL");
  CHECK(rig.history.last_failure()->round == 1);
  CHECK(rig.history.history().rounds()[1].story == "a node has joined");
}

TEST_CASE("while no page is open nobody reads what workers print", "[desk]") {
  Rig rig;
  rig.page.start();
  CHECK(rig.asked.size() == 1);
  CHECK_FALSE(rig.asked_for_lines);
}

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
  bool asked_for_lines = false;
  HttpServer server{io, open_listener("127.0.0.1", 0),
                    [this](const HttpRequest&, const HttpServer::Answer& answer) { page.open(answer); }};
  JobPage page{io, server, [this](bool lines, const auto& take) {
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

TEST_CASE("while no page is open nobody reads what workers print", "[desk]") {
  Rig rig;
  rig.page.start();
  CHECK(rig.asked.size() == 1);
  CHECK_FALSE(rig.asked_for_lines);
}

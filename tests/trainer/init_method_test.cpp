#include "trainer/ddp/group/init_method.h"

#include "rendezvous/peer/loopback.h"
#include "tests/support/test.h"
#include "trainer/ddp/group/own_address.h"

namespace {

std::string mistake(const std::string& text) {
  const auto method = parse_init_method(text);
  const auto* sentence = std::get_if<std::string>(&method);
  return sentence ? *sentence : "no mistake";
}

}  // namespace

TEST_CASE("ranks meet by the environment, at an address or in a file", "[init_method]") {
  CHECK(std::holds_alternative<FromEnvironment>(parse_init_method("env://")));
  CHECK(std::holds_alternative<FromEnvironment>(parse_init_method("")));
  const auto address = std::get<AtAddress>(parse_init_method("tcp://node-1:29500"));
  CHECK(address.host == "node-1");
  CHECK(address.port == 29500);
  CHECK(std::get<AtAddress>(parse_init_method("tcp://[fe80::1]:1")).host == "fe80::1");
  CHECK(std::get<InFile>(parse_init_method("file:///shared/meet here")).path == "/shared/meet here");
}

TEST_CASE("a way to meet that is none is told in a sentence", "[init_method]") {
  for (const char* text :
       {"tcp://node-1", "tcp://:29500", "tcp://node-1:0", "tcp://node-1:70000", "tcp://node-1:29500/"})
    CHECK_THAT(mistake(text), Contains(std::string("'") + text + "' must be tcp://host:port"));
  for (const char* text : {"file://shared/meet", "file:///shared/"})
    CHECK_THAT(mistake(text), Contains("the absolute path of a file"));
  CHECK_THAT(mistake("http://node-1:80"), Contains("it must be env://, tcp://host:port or file:///path"));
}

TEST_CASE("ranks are named as a person would, and not a thousand of them", "[init_method]") {
  CHECK(name_ranks({2}) == "rank 2");
  CHECK(name_ranks({2, 5}) == "ranks 2 and 5");
  CHECK(name_ranks({0, 1, 2, 3, 4, 5, 6, 7, 8}) == "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 8");
  CHECK(name_ranks({0, 1, 2, 3, 4, 5, 6, 7, 8, 11}) == "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 2 more");
  CHECK(format_duration(30s) == "30 s");
  CHECK(format_duration(1500ms) == "1500 ms");
}

TEST_CASE("a name that means the loopback here gives other machines another address, where there is one",
          "[own_address]") {
  CHECK(rendezvous::is_loopback(own_address_towards("127.0.1.1", 1)));
  const std::string outside = own_address_towards("192.0.2.1", 9);
  const std::string offered = own_address_for_other_machines("127.0.1.1", 1);
  CHECK_FALSE(offered.empty());
  if (!outside.empty()) CHECK(offered == outside);
}

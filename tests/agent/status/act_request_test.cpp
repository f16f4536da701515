#include "agent/status/act_request.h"

#include "tests/support/catch.h"

using namespace ddprun::agent;
using namespace ddprun::rendezvous;

TEST_CASE("an act arrives as it was asked for", "[ctl]") {
  for (const Act& act : {Act{ActKind::restart, "", 0, 0, "alice on login1"}, Act{ActKind::drain, "n\"3", 0, 0, "bob"},
                         Act{ActKind::resize, "", 2, 4, ""}, Act{ActKind::remove_workers, "n3", 0, 0, "bob", {}, 2}}) {
    const auto parsed = parse_act(act_line(act));
    REQUIRE(std::holds_alternative<Act>(parsed));
    CHECK(std::get<Act>(parsed) == act);
  }
  CHECK(parse_act_answer(to_line({true, "done"})).done);
  CHECK(parse_act_answer(to_line({false, "why"})).text == "why");
  CHECK_FALSE(parse_act_answer("").done);
}

TEST_CASE("what is no act is refused", "[ctl]") {
  for (const std::string& line :
       {std::string(), std::string("act"), std::string("act {"), std::string("act []"), std::string("act {\"act\":7}"),
        std::string("act {\"act\":\"burn\"}"), std::string("act {\"act\":\"drain\"}"),
        std::string("act {\"act\":\"resize\",\"nodes_min\":3,\"nodes_max\":2}"),
        std::string("act {\"act\":\"resize\",\"nodes_min\":-1,\"nodes_max\":2}"),
        std::string("act {\"act\":\"resize\",\"nodes_min\":1,\"nodes_max\":99999999999}"),
        std::string("act {\"act\":\"add-workers\"}"), std::string("act {\"act\":\"add-workers\",\"workers\":70000}"),
        "act {\"act\":\"stop\",\"by\":\"" + std::string(300, 'x') + "\"}"}) {
    CAPTURE(line);
    CHECK(std::holds_alternative<std::string>(parse_act(line)));
  }
}

#include "agent/coordination.h"

#include "rendezvous/base/overloaded.h"
#include "tests/support/catch.h"

using namespace ddprun;
using namespace ddprun::agent;

TEST_CASE("a job of one node forms, confirms and starts its round inside start(), without a turn of the loop",
          "[coordination]") {
  asio::io_context io;
  std::vector<std::string> received;
  std::unique_ptr<Coordination> here;
  Coordination::Hooks hooks;
  hooks.on_connected = [&] { here->send(rendezvous::NodeReady{here->node(), {.workers = 2, .port = 29500}}); };
  hooks.on_message = [&](const rendezvous::ToAgent& message) {
    std::visit(overloaded{
                   [&](const rendezvous::TakeSeat& m) {
                     received.push_back("seat");
                     here->send(rendezvous::NodeConfirmed{here->node(), m.seat.round});
                   },
                   [&](const rendezvous::StartRound&) { received.push_back("start"); },
                   [&](const auto&) { received.push_back("another"); },
               },
               message);
  };
  here = make_local_coordination(io, {}, hooks);
  here->start();
  CHECK(received == std::vector<std::string>{"seat", "start"});
}

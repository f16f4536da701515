// Which address a rank offers to its peers.
#include "trainer/ddp/group/own_address.h"

#include "rendezvous/peer/loopback.h"
#include "tests/support/catch.h"

using namespace ddprun;
using namespace ddprun::rendezvous;

TEST_CASE("a name that means the loopback here gives other machines another address, where there is one",
          "[own_address]") {
  CHECK(is_loopback(own_address_towards("127.0.1.1", 1)));
  const std::string outside = own_address_towards("192.0.2.1", 9);
  const std::string offered = own_address_for_other_machines("127.0.1.1", 1);
  CHECK_FALSE(offered.empty());
  if (!outside.empty()) CHECK(offered == outside);
}

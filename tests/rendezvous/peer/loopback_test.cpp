#include "rendezvous/peer/loopback.h"

#include "tests/support/test.h"

TEST_CASE("a host that every machine calls its own is on loopback", "[loopback]") {
  for (const char* own : {"localhost", "127.0.0.1", "127.0.1.1", "127.1", "127.255.255.254", "::1", "0:0::1",
                          "::ffff:127.0.0.1", "::ffff:7f00:1"}) {
    INFO(own);
    CHECK(is_loopback(own));
  }
}

TEST_CASE("a host that others may reach is not on loopback", "[loopback]") {
  for (const char* other : {"", "10.0.0.127", "128.0.0.1", "0.0.0.0", "::", "::2", "fd99::1", "::ffff:10.0.0.1",
                            "127.example.org", "localhost.example", "gpu-7"}) {
    INFO(other);
    CHECK_FALSE(is_loopback(other));
  }
}

#include "trainer/metrics/tensorboard.h"

#include "tests/support/catch.h"

using namespace ddprun;
using namespace ddprun::train;

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

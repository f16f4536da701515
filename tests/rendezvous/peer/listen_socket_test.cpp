#include "rendezvous/peer/listen_socket.h"

#include "rendezvous/base/error.h"
#include "rendezvous/base/fd.h"
#include "tests/support/test.h"

namespace {

struct Listener {
  explicit Listener(const Listening& listening) : fd(listening.fd), port(listening.port) {}
  Fd fd;
  std::uint16_t port;
};

// Three ports in a row that nobody has.
PortRange free_range() {
  for (;;) try {
      const Listener first(open_listener("127.0.0.1", 0));
      const auto port = first.port;
      if (port > 65'533) continue;
      const Listener second(open_listener("127.0.0.1", static_cast<std::uint16_t>(port + 1)));
      const Listener third(open_listener("127.0.0.1", static_cast<std::uint16_t>(port + 2)));
      return {port, static_cast<std::uint16_t>(port + 2)};
    } catch (const Error&) {
    }
}

}  // namespace

TEST_CASE("of a range of ports the next free one behind the last is taken, and in the end the first again",
          "[listen]") {
  const PortRange ports = free_range();
  const Listener first(open_listener("127.0.0.1", ports, 0));
  CHECK(first.port == ports.first);
  CHECK(Listener(open_listener("127.0.0.1", ports, first.port)).port == ports.first + 1);
  CHECK(Listener(open_listener("127.0.0.1", ports, 1)).port == ports.first + 1);  // the first is taken
  CHECK(Listener(open_listener("127.0.0.1", ports, static_cast<std::uint16_t>(ports.first + 1))).port == ports.last);
  CHECK(Listener(open_listener("127.0.0.1", ports, ports.last)).port == ports.first + 1);
}

TEST_CASE("a range of ports that are all taken is named, with the remedy", "[listen]") {
  PortRange ports = free_range();
  ports.last = static_cast<std::uint16_t>(ports.first + 1);
  const Listener first(open_listener("127.0.0.1", ports, 0)), second(open_listener("127.0.0.1", ports, 0));
  const std::string why = error_text<Error>([&] { open_listener("127.0.0.1", ports, 0); });
  CHECK(why.find("cannot bind the store to 127.0.0.1:" + std::to_string(ports.first) + " to " +
                 std::to_string(ports.last)) != std::string::npos);
  CHECK(why.find("Name more of them by --store-ports.") != std::string::npos);
}

// A store for tests in other languages: `store_main [port]` prints its port and serves until stdin ends. `store_main
// --proxies N [--token] [--control]` adds N store proxies, and prints their ports, too: the store's first, all on one
// line. With a token they reach it by TLS. With --control the last port is the one to which they connect.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "tests/support/store_rig.h"

using namespace ddprun;

namespace {

void serve_until_stdin_ends() {
  std::fflush(stdout);
  char ignored[256];
  while (read(STDIN_FILENO, ignored, sizeof ignored) > 0) continue;
}

void serve_through_proxies(std::size_t count, bool with_token, bool print_control_port) {
  test::StoreRig::Options options{.proxies = count};
  if (with_token)
    options.credentials = std::get<rendezvous::Token>(rendezvous::Token::parse("00112233445566778899aabbccddeeff"));
  test::StoreRig rig(options);
  std::printf("%u", rig.store().port());
  for (std::size_t i = 0; i < count; ++i) std::printf(" %u", rig.proxy(i).port());
  if (print_control_port) std::printf(" %u", rig.control_port());
  std::printf("\n");
  serve_until_stdin_ends();
}

}  // namespace

int main(int argc, char** argv) try {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() >= 2 && arguments[0] == "--proxies") {
    const auto has = [&](const char* word) {
      return std::find(arguments.begin(), arguments.end(), word) != arguments.end();
    };
    serve_through_proxies(std::stoul(arguments[1]), has("--token"), has("--control"));
    return 0;
  }
  const rendezvous::Server server({{}, static_cast<std::uint16_t>(arguments.empty() ? 0 : std::stoul(arguments[0]))});
  std::printf("%u\n", server.port());
  serve_until_stdin_ends();
} catch (const std::exception& error) {
  std::fprintf(stderr, "store_main: %s\n", error.what());
  return 1;
}

// A store of its own for tests in other languages: `store_main [port]` prints its port and serves until stdin ends.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "rendezvous/error.h"
#include "rendezvous/server.h"

int main(int argc, char** argv) try {
  const auto port = static_cast<std::uint16_t>(argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 0);
  const ddprun::Server server({{}, port});
  std::printf("%u\n", server.port());
  std::fflush(stdout);
  char ignored[256];
  while (read(STDIN_FILENO, ignored, sizeof ignored) > 0) continue;
} catch (const ddprun::Error& error) {
  std::fprintf(stderr, "store_main: %s\n", error.what());
  return 1;
}

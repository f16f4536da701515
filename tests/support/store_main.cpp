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

void serve_until_the_end() {
  std::fflush(stdout);
  char ignored[256];
  while (read(STDIN_FILENO, ignored, sizeof ignored) > 0) continue;
}

void serve_through_proxies(std::size_t count, bool by_token, bool tells_control) {
  test::StoreRig::Options options{.proxies = count};
  if (by_token)
    options.credentials = std::get<rendezvous::Token>(rendezvous::Token::parse("00112233445566778899aabbccddeeff"));
  test::StoreRig rig(options);
  std::printf("%u", rig.store().port());
  for (std::size_t i = 0; i < count; ++i) std::printf(" %u", rig.proxy(i).port());
  if (tells_control) std::printf(" %u", rig.control_port());
  std::printf("\n");
  serve_until_the_end();
}

}  // namespace

int main(int argc, char** argv) try {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() >= 2 && words[0] == "--proxies") {
    const auto has = [&](const char* word) { return std::find(words.begin(), words.end(), word) != words.end(); };
    serve_through_proxies(std::stoul(words[1]), has("--token"), has("--control"));
    return 0;
  }
  const rendezvous::Server server({{}, static_cast<std::uint16_t>(words.empty() ? 0 : std::stoul(words[0]))});
  std::printf("%u\n", server.port());
  serve_until_the_end();
} catch (const std::exception& error) {
  std::fprintf(stderr, "store_main: %s\n", error.what());
  return 1;
}

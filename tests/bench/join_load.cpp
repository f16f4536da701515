// A member that joins over and over, as an agent dials: `join_load PORT COUNT LIMIT`, with store_main's token. Prints
// the milliseconds of each, until it has authenticated; "LIMIT" in milliseconds where it had not by then.
#include <algorithm>
#include <cstdio>
#include <optional>
#include <random>
#include <string>
#include <thread>

#include <asio/io_context.hpp>

#include "rendezvous/peer/dialer.h"
#include "rendezvous/peer/token.h"

using namespace ddprun;
using namespace ddprun::rendezvous;

namespace {

constexpr std::chrono::milliseconds kPauseFirst{20}, kPauseMax{500};  // as job_link.cpp and link_dialer.cpp

double milliseconds_to_join(const PeerTrust& trust, std::uint16_t port, Duration limit) {
  asio::io_context io;
  const TimePoint begin = Clock::now();
  std::optional<PeerConnection> joined;
  Duration pause = kPauseFirst;
  std::optional<Dialer> dialer;
  dialer.emplace(io, nullptr, trust,
                 Dialer::Hooks{[&](PeerConnection connection) { joined.emplace(std::move(connection)); },
                               [&](const Dialer::Failure&) {
                                 dialer->start({{"127.0.0.1", port}, pause});
                                 pause = std::min<Duration>(2 * pause, kPauseMax);
                               }});
  dialer->start({{"127.0.0.1", port}});
  while (!joined && Clock::now() < begin + limit) io.run_one_until(begin + limit);
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 4) return std::fputs("usage: join_load PORT COUNT LIMIT\n", stderr), 2;
  const Token token = std::get<Token>(Token::parse("00112233445566778899aabbccddeeff"));
  const PeerTrust trust{std::make_shared<TlsContext>(token, "job"), make_identity("member", "job"), {}};
  trust.tls->prepare();
  std::minstd_rand random(1);
  for (int i = std::stoi(argv[2]); i > 0; --i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100 + random() % 600));
    std::printf("%.1f\n", milliseconds_to_join(trust, static_cast<std::uint16_t>(std::stoul(argv[1])),
                                               std::chrono::milliseconds(std::stol(argv[3]))));
    std::fflush(stdout);
  }
} catch (const std::exception& error) {
  std::fprintf(stderr, "join_load: %s\n", error.what());
  return 1;
}

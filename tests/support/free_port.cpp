#include "free_port.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <fstream>
#include <random>
#include <stdexcept>
#include <string>

namespace ddprun::test {
namespace {

constexpr int kFirst = 10000, kLast = 28999;  // well-known services are below, the launchers' defaults above
constexpr int kEphemeralFirst = 32768, kEphemeralLast = 60999;  // Linux's default

bool is_ephemeral(int port) {
  int first = kEphemeralFirst, last = kEphemeralLast;
  std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> first >> last;
  return port >= first && port <= last;
}

// An abstract name belongs to its network namespace, and is free again when this process has ended.
bool reserve(int port) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  const std::string text = "ddprun-test-port-" + std::to_string(port);
  text.copy(name.sun_path + 1, text.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  if (fd >= 0 && bind(fd, reinterpret_cast<const sockaddr*>(&name), size) == 0) return true;  // fd stays open
  close(fd);
  return false;
}

bool can_listen_on(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_port = htons(static_cast<std::uint16_t>(port));
  const bool can = bind(fd, reinterpret_cast<const sockaddr*>(&any), sizeof any) == 0;
  close(fd);
  return can;
}

}  // namespace

std::uint16_t free_port() {
  std::random_device random;
  std::uniform_int_distribution<int> any_port(kFirst, kLast);
  for (int tries = 0; tries < 1000; ++tries)
    if (const int port = any_port(random); !is_ephemeral(port) && reserve(port) && can_listen_on(port))
      return static_cast<std::uint16_t>(port);
  throw std::runtime_error("no port from " + std::to_string(kFirst) + " to " + std::to_string(kLast) + " is free");
}

}  // namespace ddprun::test

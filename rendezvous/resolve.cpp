#include "rendezvous/resolve.h"

#include <netdb.h>
#include <pthread.h>

#include <csignal>
#include <cstring>
#include <future>
#include <thread>
#include <utility>

#include "rendezvous/signals_blocked.h"
#include "rendezvous/stream.h"

namespace ddprun {
namespace {

struct LookUp {
  int error = 0;  // of getaddrinfo
  std::vector<Address> addresses;
};

LookUp look_up(const std::string& host, std::uint16_t port, int flags) {
  addrinfo hints{}, *list = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  LookUp result{getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list), {}};
  if (result.error != 0) return result;
  for (const addrinfo* info = list; info; info = info->ai_next) {
    Address& address = result.addresses.emplace_back();
    std::memcpy(&address.storage, info->ai_addr, info->ai_addrlen);
    address.size = info->ai_addrlen;
  }
  freeaddrinfo(list);
  return result;
}

std::future<LookUp> look_up_aside(const std::string& host, std::uint16_t port) {
  std::packaged_task<LookUp()> task([host, port] { return look_up(host, port, 0); });
  std::future<LookUp> result = task.get_future();
  const SignalsBlocked blocked;
  std::thread(std::move(task)).detach();
  return result;
}

}  // namespace

std::vector<Address> resolve(const std::string& host, std::uint16_t port, TimePoint deadline) {
  LookUp result = look_up(host, port, AI_NUMERICHOST);
  if (result.error == 0) return result.addresses;
  std::future<LookUp> coming = look_up_aside(host, port);
  const bool in_time = deadline == TimePoint::max() || coming.wait_until(deadline) == std::future_status::ready;
  if (!in_time) throw Late("its name could not be looked up in time");
  result = coming.get();
  if (result.error != 0) throw Broken(gai_strerror(result.error));
  return result.addresses;
}

}  // namespace ddprun

#include "rendezvous/peer/resolve.h"

#include <netdb.h>
#include <netinet/in.h>

#include <cstring>
#include <memory>

#include "rendezvous/base/fd.h"
#include "rendezvous/base/stream_error.h"
#include "rendezvous/base/thread.h"

namespace ddprun::rendezvous {
namespace {

LookUp look_up(const std::string& host, int flags) {
  addrinfo hints{}, *list = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  LookUp result;
  if (const int error = getaddrinfo(host.c_str(), nullptr, &hints, &list)) {
    result.error = gai_strerror(error);
    result.no_such_host = error == EAI_NONAME || error == EAI_NODATA;
    return result;
  }
  for (const addrinfo* info = list; info; info = info->ai_next) {
    Address& address = result.addresses.emplace_back();
    std::memcpy(&address.storage, info->ai_addr, info->ai_addrlen);
    address.size = info->ai_addrlen;
  }
  freeaddrinfo(list);
  return result;
}

}  // namespace

std::vector<Address> numeric_addresses(const std::string& host) { return look_up(host, AI_NUMERICHOST).addresses; }

LookUp look_up(const std::string& host) { return look_up(host, 0); }

std::future<LookUp> look_up_in_thread(const std::string& host) {
  const auto result = std::make_shared<std::promise<LookUp>>();
  std::future<LookUp> coming = result->get_future();
  const std::string refused = start_detached([host, result] { result->set_value(look_up(host)); });
  if (!refused.empty()) result->set_value({.error = refused});
  return coming;
}

// The kernel binds only this machine's addresses.
Locality locality_of(const LookUp& found) {
  if (found.addresses.empty()) return Locality::unknown;
  for (const Address& address : found.addresses) {
    const Fd socket(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (socket && bind(socket.get(), address.get(), address.size) == 0) return Locality::local;
  }
  return Locality::remote;
}

Address with_port(Address address, std::uint16_t port) {
  if (address.storage.ss_family == AF_INET6)
    reinterpret_cast<sockaddr_in6&>(address.storage).sin6_port = htons(port);
  else
    reinterpret_cast<sockaddr_in&>(address.storage).sin_port = htons(port);
  return address;
}

std::vector<Address> resolve(const std::string& host, std::uint16_t port, TimePoint deadline) {
  LookUp result{.addresses = numeric_addresses(host)};
  if (result.addresses.empty()) {
    std::future<LookUp> pending = look_up_in_thread(host);
    const bool in_time = deadline == TimePoint::max() || pending.wait_until(deadline) == std::future_status::ready;
    if (!in_time) throw DeadlineExceeded("its name could not be looked up in time");
    result = pending.get();
  }
  if (result.addresses.empty()) throw ConnectionError(result.error);
  for (Address& address : result.addresses) address = with_port(address, port);
  return result.addresses;
}

}  // namespace ddprun::rendezvous

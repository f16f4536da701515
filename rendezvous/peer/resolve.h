// Looks up a host, in the calling thread or in one of its own.
#pragma once
#include <sys/socket.h>

#include <cstdint>
#include <future>
#include <string>
#include <vector>

#include "rendezvous/base/time.h"

namespace ddprun::rendezvous {

struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

// The addresses of a host, without a port, or why there are none.
struct LookUp {
  std::string error = {};     // "Name or service not known"; empty: there are addresses
  bool no_such_host = false;  // a name server says so; else none could be reached
  std::vector<Address> addresses = {};
};

// `host` as a numeric address; empty: it is a name.
std::vector<Address> numeric_addresses(const std::string& host);
// Takes as long as the C library takes: minutes if no name server answers.
LookUp look_up(const std::string& host);
// In a thread of its own, abandoned if nobody waits for it: the C library's look-up cannot be cancelled.
std::future<LookUp> look_up_in_thread(const std::string& host);

// Whether an address or name is this machine's.
enum class Locality { local, remote, unknown };  // unknown: the name has no address at the moment
Locality locality_of(const LookUp& found);

Address with_port(Address address, std::uint16_t port);

// With a deadline. Never empty. Throws DeadlineExceeded, or ConnectionError (stream_error.h) if there is no such host.
std::vector<Address> resolve(const std::string& host, std::uint16_t port, TimePoint deadline);

}  // namespace ddprun::rendezvous

// Finds one socket in the kernel's tables of TCP sockets, /proc/net/tcp and tcp6: slow if there are many, and used only
// if nothing else tells whose a socket is.
#pragma once
#include <sys/types.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace ddprun::rendezvous {

struct SocketEnd {
  bool ipv6 = false;
  std::array<std::uint32_t, 4> words{};  // in network order; an IPv4 address is the first one
  std::uint16_t port = 0;

  std::array<std::uint32_t, 4> as_ipv6() const;  // 127.0.0.1 as ::ffff:127.0.0.1
  std::optional<std::uint32_t> as_ipv4() const;  // ::ffff:127.0.0.1 as 127.0.0.1
};

struct ListedSocket {
  uid_t user = 0;
  std::uint64_t inode = 0;  // 0: no process has it any more
};

// Searches such a table's text. `ends`: from text_of_ends().
std::optional<ListedSocket> find_in_table(std::string_view table, const std::string& ends);
// "0100007F:1F90 0100007F:A1B2 "
std::string text_of_ends(const SocketEnd& near, const SocketEnd& far, bool ipv6);

// The socket whose own end is `near`; or errno if no table can be read.
std::variant<std::optional<ListedSocket>, int> find_socket(const SocketEnd& near, const SocketEnd& far);

}  // namespace ddprun::rendezvous

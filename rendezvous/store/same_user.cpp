#include "rendezvous/store/same_user.h"

#include <ifaddrs.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>
#include <system_error>

#include "rendezvous/peer/loopback.h"
#include "rendezvous/store/socket_table.h"

namespace ddprun::rendezvous {

struct SameUser::Pair {
  sockaddr_storage near{}, far{};  // near: the end of the process in question
};

namespace {

constexpr std::uint32_t kAnyState = ~0u;

struct DiagRequest {
  nlmsghdr head{};
  inet_diag_req_v2 body{};
};

struct End {
  std::uint16_t port = 0;                // as on the wire
  std::array<std::uint32_t, 4> words{};  // an IPv4 address is the first one
};

End end_of(const sockaddr_storage& address) {
  End end;
  if (address.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
    end.port = v6.sin6_port;
    std::memcpy(end.words.data(), &v6.sin6_addr, sizeof v6.sin6_addr);
  } else {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    end.port = v4.sin_port;
    end.words[0] = v4.sin_addr.s_addr;
  }
  return end;
}

// The kernel finds both ::ffff:127.0.0.1 and 127.0.0.1, whichever form each side uses.
DiagRequest diag_request_for(const sockaddr_storage& near, const sockaddr_storage& far) {
  DiagRequest request;
  request.head.nlmsg_len = sizeof request;
  request.head.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  request.head.nlmsg_flags = NLM_F_REQUEST;
  inet_diag_req_v2& body = request.body;
  body.sdiag_family = static_cast<std::uint8_t>(near.ss_family);
  body.sdiag_protocol = IPPROTO_TCP;
  body.idiag_states = kAnyState;
  const End from = end_of(near), to = end_of(far);
  body.id.idiag_sport = from.port;
  body.id.idiag_dport = to.port;
  std::memcpy(body.id.idiag_src, from.words.data(), sizeof body.id.idiag_src);
  std::memcpy(body.id.idiag_dst, to.words.data(), sizeof body.id.idiag_dst);
  body.id.idiag_cookie[0] = body.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  return request;
}

bool has_process(const inet_diag_msg& found, const DiagRequest& request) {
  // A socket that only listens at the peer's port would be found in its place.
  return found.idiag_inode != 0 && found.id.idiag_dport == request.body.id.idiag_dport &&
         (found.idiag_state == TCP_ESTABLISHED || found.idiag_state == TCP_CLOSE_WAIT ||
          found.idiag_state == TCP_FIN_WAIT1 || found.idiag_state == TCP_FIN_WAIT2);
}

std::string error_message(int error) { return std::generic_category().message(error); }

SocketEnd table_end(const sockaddr_storage& address) {
  const End end = end_of(address);
  return {address.ss_family == AF_INET6, end.words, ntohs(end.port)};
}

bool same_address(const sockaddr_storage& a, const sockaddr_storage& b) {
  return table_end(a).as_ipv6() == table_end(b).as_ipv6();
}

// Only for a peer without a process here: it was here and is gone, or it is elsewhere.
bool is_address_of_this_machine(const sockaddr_storage& peer, const sockaddr_storage& own) {
  if (is_loopback(peer) || same_address(peer, own)) return true;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return false;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(all, &freeifaddrs);
  for (const ifaddrs* one = all; one; one = one->ifa_next) {
    if (!one->ifa_addr || (one->ifa_addr->sa_family != AF_INET && one->ifa_addr->sa_family != AF_INET6)) continue;
    sockaddr_storage address{};
    std::memcpy(&address, one->ifa_addr,
                one->ifa_addr->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    if (same_address(peer, address)) return true;
  }
  return false;
}

constexpr const char* kRemedy = " (--store-users any lets it in)";

}  // namespace

SameUser::SameUser() : diag_(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG)) {}

SameUser::Finding SameUser::check_peer(int socket) {
  using Status = Owner::Status;
  Pair peer;
  socklen_t near_size = sizeof peer.near, far_size = sizeof peer.far;
  if (getpeername(socket, reinterpret_cast<sockaddr*>(&peer.near), &near_size) != 0 ||
      getsockname(socket, reinterpret_cast<sockaddr*>(&peer.far), &far_size) != 0)
    return {true, "it is gone already", true};
  const Owner owner = owner_of(peer);
  if (owner.status == Status::found && (owner.user == geteuid() || owner.user == 0)) return {};
  if (owner.status == Status::found)
    return {true, "its process belongs to user " + std::to_string(owner.user) + ", ddprun's to " +
                      std::to_string(geteuid()) + kRemedy};
  if (owner.status != Status::no_process && !is_address_of_this_machine(peer.near, peer.far)) return {false};
  if (owner.status == Status::unknown) return {true, "the kernel does not tell its owner: " + owner.why + kRemedy};
  return {true, "its socket has no process any more", true};
}

SameUser::Owner SameUser::owner_of(const Pair& ends) {
  Owner owner = query_diag(ends);
  if (owner.status == Owner::Status::found || owner.status == Owner::Status::no_process) return owner;
  if (!diag_works_) diag_works_ = diag_finds_sockets({ends.far, ends.near});
  if (*diag_works_) return owner;
  const auto listed = find_socket(table_end(ends.near), table_end(ends.far));
  if (const auto* error = std::get_if<int>(&listed)) return {Owner::Status::unknown, 0, error_message(*error)};
  const auto& found = std::get<std::optional<ListedSocket>>(listed);
  if (!found) return {Owner::Status::no_socket};
  return {found->inode ? Owner::Status::found : Owner::Status::no_process, found->user};
}

// Our own end of the connection certainly exists: if diag does not find it, it finds nothing.
bool SameUser::diag_finds_sockets(const Pair& own) { return query_diag(own).status == Owner::Status::found; }

SameUser::Owner SameUser::query_diag(const Pair& ends) {
  using Status = Owner::Status;
  const auto unknown = [](int error) { return Owner{Status::unknown, 0, error_message(error)}; };
  if (!diag_) return unknown(EPROTONOSUPPORT);
  const DiagRequest request = diag_request_for(ends.near, ends.far);
  if (send(diag_.get(), &request, sizeof request, 0) < 0) return unknown(errno);
  alignas(nlmsghdr) std::array<char, 4096> answer{};
  const ssize_t size = recv(diag_.get(), answer.data(), answer.size(), 0);  // the kernel answers within send()
  if (size < 0) return unknown(errno);
  const auto& head = *reinterpret_cast<const nlmsghdr*>(answer.data());
  if (head.nlmsg_type == NLMSG_ERROR) {
    const int error = -reinterpret_cast<const nlmsgerr*>(answer.data() + NLMSG_HDRLEN)->error;
    return error == ENOENT ? Owner{Status::no_socket} : unknown(error);
  }
  if (head.nlmsg_type != SOCK_DIAG_BY_FAMILY || size < static_cast<ssize_t>(NLMSG_LENGTH(sizeof(inet_diag_msg))))
    return unknown(EPROTO);
  const auto& found = *reinterpret_cast<const inet_diag_msg*>(answer.data() + NLMSG_HDRLEN);
  if (!has_process(found, request)) return {Status::no_process};
  return {Status::found, found.idiag_uid};
}

}  // namespace ddprun::rendezvous

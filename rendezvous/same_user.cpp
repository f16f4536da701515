#include "rendezvous/same_user.h"

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
#include <system_error>

namespace ddprun {
namespace {

constexpr std::uint32_t kAnyState = ~0u;

struct Question {
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

// About the peer's end: what is far for us is its own address. The kernel finds ::ffff:127.0.0.1 and 127.0.0.1 alike,
// whichever of them each side calls it.
Question question(const sockaddr_storage& peer, const sockaddr_storage& own) {
  Question question;
  question.head.nlmsg_len = sizeof question;
  question.head.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  question.head.nlmsg_flags = NLM_F_REQUEST;
  inet_diag_req_v2& body = question.body;
  body.sdiag_family = static_cast<std::uint8_t>(peer.ss_family);
  body.sdiag_protocol = IPPROTO_TCP;
  body.idiag_states = kAnyState;
  const End from = end_of(peer), to = end_of(own);
  body.id.idiag_sport = from.port;
  body.id.idiag_dport = to.port;
  std::memcpy(body.id.idiag_src, from.words.data(), sizeof body.id.idiag_src);
  std::memcpy(body.id.idiag_dst, to.words.data(), sizeof body.id.idiag_dst);
  body.id.idiag_cookie[0] = body.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  return question;
}

bool has_process(const inet_diag_msg& found, const Question& asked) {
  // A socket that only listens at the peer's port would be found in its place.
  return found.idiag_inode != 0 && found.id.idiag_dport == asked.body.id.idiag_dport &&
         (found.idiag_state == TCP_ESTABLISHED || found.idiag_state == TCP_CLOSE_WAIT ||
          found.idiag_state == TCP_FIN_WAIT1 || found.idiag_state == TCP_FIN_WAIT2);
}

std::string in_words(int error) { return std::generic_category().message(error); }

}  // namespace

std::string SameUser::complaint_about(int socket) {
  const Owner owner = owner_of_peer(socket);
  if (!owner.known) return owner.why;
  if (owner.user == geteuid() || owner.user == 0) return {};
  return "its process belongs to user " + std::to_string(owner.user) + ", ours to " + std::to_string(geteuid());
}

SameUser::Owner SameUser::owner_of_peer(int socket) {
  if (!diag_) diag_ = Fd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG));
  const auto unknown = [](const std::string& why) {
    return Owner{false, 0, "the kernel does not tell whose it is: " + why};
  };
  if (!diag_) return unknown(in_words(errno));
  sockaddr_storage peer{}, own{};
  socklen_t peer_size = sizeof peer, own_size = sizeof own;
  if (getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &peer_size) != 0 ||
      getsockname(socket, reinterpret_cast<sockaddr*>(&own), &own_size) != 0)
    return {false, 0, "it is gone already"};
  const Question asked = question(peer, own);
  if (send(diag_.get(), &asked, sizeof asked, 0) < 0) return unknown(in_words(errno));
  alignas(nlmsghdr) std::array<char, 4096> answer{};
  const ssize_t size = recv(diag_.get(), answer.data(), answer.size(), 0);  // it was answered as it was sent
  if (size < 0) return unknown(in_words(errno));
  const auto& head = *reinterpret_cast<const nlmsghdr*>(answer.data());
  if (head.nlmsg_type == NLMSG_ERROR) {
    const int error = reinterpret_cast<const nlmsgerr*>(answer.data() + NLMSG_HDRLEN)->error;
    return error == -ENOENT ? Owner{false, 0, "its socket has no process any more"} : unknown(in_words(-error));
  }
  if (head.nlmsg_type != SOCK_DIAG_BY_FAMILY || size < static_cast<ssize_t>(NLMSG_LENGTH(sizeof(inet_diag_msg))))
    return unknown("an answer to something else");
  const auto& found = *reinterpret_cast<const inet_diag_msg*>(answer.data() + NLMSG_HDRLEN);
  if (!has_process(found, asked)) return {false, 0, "its socket has no process any more"};
  return {true, found.idiag_uid, {}};
}

}  // namespace ddprun

// Processes of other users connect to us. Only root can start them.
#include "rendezvous/store/same_user.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <asio/ip/tcp.hpp>

#include "rendezvous/peer/listen_socket.h"
#include "rendezvous/store/socket_table.h"
#include "tests/support/test.h"

using asio::ip::tcp;

namespace {

constexpr uid_t kStranger = 65'534;
constexpr const char* kOfStranger = "its process belongs to user 65534, ddprun's to 0 (--store-users any lets it in)";

tcp::endpoint address_of(const char* text, std::uint16_t port) { return {asio::ip::make_address(text), port}; }

int connected(const tcp::endpoint& to) {
  const int fd = socket(to.protocol().family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
  return connect(fd, to.data(), static_cast<socklen_t>(to.size())) == 0 ? fd : -1;
}

// A process of another user that connects, does `then` with the socket, and lives until this ends. Nothing but system
// calls in it: others threads' locks are not its.
class Visitor {
 public:
  Visitor(
      uid_t user, const tcp::endpoint& to, void (*then)(int) = [](int) {}) {
    REQUIRE(pipe(pipe_) == 0);
    pid_ = fork();
    REQUIRE(pid_ >= 0);
    if (pid_ > 0) return;
    if (syscall(SYS_setuid, user) != 0) _exit(2);
    const int fd = connected(to);
    if (fd < 0) _exit(3);
    then(fd);
    close(pipe_[1]);
    char ignored = 0;
    while (read(pipe_[0], &ignored, 1) > 0) continue;
    _exit(0);
  }
  ~Visitor() {
    close(pipe_[1]);
    int status = 0;
    waitpid(pid_, &status, 0);
    close(pipe_[0]);
    CHECK(status == 0);
  }
  Visitor(const Visitor&) = delete;
  Visitor& operator=(const Visitor&) = delete;

 private:
  int pipe_[2] = {-1, -1};
  pid_t pid_ = -1;
};

bool is_root() {
  if (geteuid() == 0) return true;
  WARN("skipped: only root can start a process of another user");
  return false;
}

Fd accepted(const Listening& listening) {
  for (int i = 0; i < 10'000; ++i) {
    const int fd = accept4(listening.fd, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd >= 0) return Fd(fd);
    usleep(1000);
  }
  throw std::runtime_error("nobody came");
}

struct Place {
  const char *listener, *client;
};

// In a thread of its own, which has no netlink sockets from now on.
template <class What>
void without_netlink(What what) {
  std::thread([&] {
    sock_filter steps[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                           BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 3),
                           BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args)),
                           BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_NETLINK, 0, 1),
                           BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPROTONOSUPPORT),
                           BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    const sock_fprog filter{std::size(steps), steps};
    REQUIRE(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    REQUIRE(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0);
    REQUIRE_FALSE(Fd(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0)));
    what();
  }).join();
}

constexpr Place kPlaces[] = {{"127.0.0.1", "127.0.0.1"},
                             {"127.0.0.1", "::ffff:127.0.0.1"},
                             {"::1", "::1"},
                             {"", "127.0.0.1"},
                             {"", "::ffff:127.0.0.1"}};

}  // namespace

TEST_CASE("a process of our own user is welcome, and one of another user is named, over IPv4, IPv6 and both in one",
          "[same_user]") {
  const bool netlink = GENERATE(true, false);  // without it the kernel's table of sockets tells whose a process is
  const bool root = is_root();
  for (const Place& place : kPlaces) {
    INFO(place.listener << " " << place.client << ", netlink " << netlink);
    const Listening listening = open_listener(place.listener, 0);
    const Fd listener(listening.fd), client(connected(address_of(place.client, listening.port)));
    REQUIRE(client);
    const Fd ours = accepted(listening);
    std::optional<Visitor> visitor;
    if (root) visitor.emplace(kStranger, address_of(place.client, listening.port));
    const Fd strangers = root ? accepted(listening) : Fd();
    const auto check = [&] {
      SameUser same_user;
      CHECK(same_user.check_peer(ours.get()).complaint.empty());
      if (root) CHECK(same_user.check_peer(strangers.get()).complaint == kOfStranger);
    };
    netlink ? check() : without_netlink(check);
  }
}

TEST_CASE("who closed its socket is nobody's, and not root's", "[same_user]") {
  if (!is_root()) return;
  SameUser same_user;
  const Listening listening = open_listener("127.0.0.1", 0);
  const Fd listener(listening.fd);
  const Visitor visitor(kStranger, address_of("127.0.0.1", listening.port), [](int fd) { close(fd); });
  const Fd socket = accepted(listening);
  char end = 0;
  CHECK(recv(socket.get(), &end, 1, 0) == 0);
  CHECK(same_user.check_peer(socket.get()).complaint == "its socket has no process any more");
}

TEST_CASE("a connection that was reset is nobody's", "[same_user]") {
  SameUser same_user;
  const Listening listening = open_listener("127.0.0.1", 0);
  const Fd listener(listening.fd);
  Fd client(connected(address_of("127.0.0.1", listening.port)));
  const Fd socket = accepted(listening);
  const linger at_once{1, 0};
  setsockopt(client.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  client.reset();
  CHECK_FALSE(same_user.check_peer(socket.get()).complaint.empty());
}

TEST_CASE("who closed its socket is nobody's in the kernel's table, too", "[same_user]") {
  const Listening listening = open_listener("127.0.0.1", 0);
  const Fd listener(listening.fd);
  Fd client(connected(address_of("127.0.0.1", listening.port)));
  const Fd socket = accepted(listening);
  client.reset();
  char end = 0;
  CHECK(recv(socket.get(), &end, 1, 0) == 0);
  without_netlink(
      [&] { CHECK(SameUser().check_peer(socket.get()).complaint == "its socket has no process any more"); });
}

TEST_CASE("a socket is found in the kernel's table by both its ends", "[same_user]") {
  const std::string table =
      "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
      "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1076 1 0 100 0 0 10 "
      "0\n"
      "   1: 0100007F:A1B2 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1001        0 2077 1 0 20 4 30 10 "
      "-1\n"
      "   2: 0100007F:A1B3 0100007F:1F90 06 00000000:00000000 03:000001E9 00000000     0        0 0 3 0\n";
  const auto end = [](std::uint16_t port) { return SocketEnd{false, {htonl(INADDR_LOOPBACK)}, port}; };
  const auto found = find_in_table(table, text_of_ends(end(0xa1b2), end(0x1f90), false));
  REQUIRE(found);
  CHECK(found->user == 1001);
  CHECK(found->inode == 2077);
  CHECK(find_in_table(table, text_of_ends(end(0xa1b3), end(0x1f90), false))->inode == 0);
  CHECK_FALSE(find_in_table(table, text_of_ends(end(0x1f90), end(0xa1b2), false)));
  CHECK_FALSE(find_in_table("", text_of_ends(end(1), end(2), false)));
}

#include "rendezvous/prefork/template_process.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/base/fd.h"
#include "rendezvous/prefork/fork_request.h"

extern char** environ;

namespace ddprun {
namespace {

constexpr int kLost = 127;            // as a worker that could not be started
constexpr int kPreferNodes = 5;       // MPOL_PREFERRED_MANY
constexpr int kFirstDescriptor = 64;  // received ones move out of the way of the numbers that they get
constexpr std::size_t kFixed = 5;     // descriptors before those of `numbers`

struct Received {
  ForkRequest request;
  Fd socket;                // the worker's own
  std::vector<Fd> streams;  // stdin, stdout, stderr, and what `numbers` names
};

std::string content_of(int fd) {
  struct stat facts {};
  if (fstat(fd, &facts) != 0) return {};
  std::string out(static_cast<std::size_t>(facts.st_size), '\0');
  const ssize_t got = pread(fd, out.data(), out.size(), 0);
  out.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  return out;
}

std::vector<Fd> descriptors_in(msghdr& message) {
  std::vector<Fd> out;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part; part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof fd);
      const Fd received(fd);
      out.emplace_back(fcntl(fd, F_DUPFD_CLOEXEC, kFirstDescriptor));
    }
  }
  return out;
}

// Waits for the next request. Empty: it cannot be read, or the agent is gone (`over`).
std::optional<Received> next_request(int socket, bool& over) {
  char byte = 0;
  iovec data{&byte, sizeof byte};
  alignas(cmsghdr) char control[CMSG_SPACE(kDescriptorsMax * sizeof(int))];
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t got = 0;
  while ((got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR) continue;
  over = got <= 0;
  if (over) return {};
  std::vector<Fd> all = descriptors_in(message);
  if (all.size() < kFixed) return {};
  auto request = parse_fork_request(content_of(all[0].get()));
  if (!request || request->numbers.size() != all.size() - kFixed) return {};
  Received out{std::move(*request), std::move(all[1]), {}};
  out.streams.assign(std::make_move_iterator(all.begin() + 2), std::make_move_iterator(all.end()));
  return out;
}

// PDEATHSIG is about the parent of the moment: set before this it would be the death of the process between.
void become_child_of(pid_t agent) {
  constexpr timespec kPause{0, 50'000};
  while (getppid() != agent) {
    if (kill(agent, 0) != 0 && errno == ESRCH) _exit(kLost);
    nanosleep(&kPause, nullptr);
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != agent) _exit(kLost);
}

std::vector<unsigned long> bits(const std::vector<int>& numbers) {
  constexpr int kPerWord = CHAR_BIT * sizeof(unsigned long);
  std::vector<unsigned long> out;
  for (const int n : numbers) {
    const auto word = static_cast<std::size_t>(n / kPerWord);
    out.resize(std::max(out.size(), word + 1));
    out[word] |= 1UL << n % kPerWord;
  }
  return out;
}

int bind(const ForkRequest& request) {
  const std::vector<unsigned long> nodes = bits(request.memory_nodes), cpus = bits(request.cpus);
  if (!nodes.empty())
    syscall(SYS_set_mempolicy, kPreferNodes, nodes.data(), nodes.size() * CHAR_BIT * sizeof(unsigned long) + 1);
  if (cpus.empty()) return 0;
  return syscall(SYS_sched_setaffinity, 0, cpus.size() * sizeof(unsigned long), cpus.data()) < 0 ? errno : 0;
}

bool take_streams(const Received& received) {
  std::vector<int> numbers{0, 1, 2};
  numbers.insert(numbers.end(), received.request.numbers.begin(), received.request.numbers.end());
  for (std::size_t i = 0; i < numbers.size(); ++i)
    if (dup2(received.streams[i].get(), numbers[i]) < 0) return false;
  return true;
}

bool join_session(const ForkRequest& request) {
  return request.foreground_group ? setpgid(0, *request.foreground_group) == 0 : setsid() >= 0;
}

// Arguments or an environment, one after the other in memory as the kernel lays them out; they live as long as the
// process.
struct Strings {
  explicit Strings(const std::vector<std::string>& strings) {
    for (const std::string& one : strings) (text += one) += '\0';
    std::size_t at = 0;
    for (const std::string& one : strings) pointers.push_back(text.data() + std::exchange(at, at + one.size() + 1));
    pointers.push_back(nullptr);
  }
  __u64 begin() const { return reinterpret_cast<std::uintptr_t>(text.data()); }
  __u64 end() const { return begin() + text.size(); }

  std::string text;
  std::vector<char*> pointers;
};

// ps and /proc/<pid>/environ show these instead of the template's. Kernels that do not allow it show the template's.
void show_in_proc(const Strings& arguments, const Strings& environment) {
  std::ifstream file("/proc/self/stat");
  std::string line;
  std::getline(file, line);
  std::istringstream words(line.substr(line.rfind(')') + 1));
  const std::vector<std::string> fields{std::istream_iterator<std::string>(words), {}};
  constexpr std::size_t kFirst = 3, kLast = 51;  // proc_pid_stat(5) counts from 1; (3) is behind the name
  if (fields.size() < kLast - kFirst + 1) return;
  const auto field = [&](std::size_t number) { return std::strtoull(fields[number - kFirst].c_str(), nullptr, 10); };
  prctl_mm_map map{};
  map.start_code = field(26);
  map.end_code = field(27);
  map.start_stack = field(28);
  map.start_data = field(45);
  map.end_data = field(46);
  map.start_brk = field(47);
  map.brk = reinterpret_cast<std::uintptr_t>(sbrk(0));
  map.arg_start = arguments.begin();
  map.arg_end = arguments.end();
  map.env_start = environment.begin();
  map.env_end = environment.end();
  map.exe_fd = static_cast<__u32>(-1);
  prctl(PR_SET_MM, PR_SET_MM_MAP, &map, sizeof map, 0);
}

// Returns in the worker, once the agent wants it to go on.
void become_worker(Received received, int& argc, char**& argv) {
  become_child_of(received.request.agent);
  if (!join_session(received.request) || !take_streams(received)) _exit(kLost);
  const std::string answer = std::to_string(getpid()) + " " + std::to_string(bind(received.request));
  char go = 0;
  if (write(received.socket.get(), answer.data(), answer.size()) < 0 || read(received.socket.get(), &go, 1) != 1)
    _exit(kLost);
  argc = static_cast<int>(received.request.argv.size());
  auto& arguments = *new Strings(received.request.argv);
  auto& environment = *new Strings(received.request.environment);
  argv = arguments.pointers.data();
  environ = environment.pointers.data();
  show_in_proc(arguments, environment);
}

enum class Side { still_template, worker };

Side fork_worker(int socket, Received received, int& argc, char**& argv) {
  std::fflush(nullptr);
  const pid_t between = fork();
  if (between == 0) {
    const pid_t worker = fork();
    if (worker != 0) _exit(worker < 0 ? 1 : 0);
    close(socket);
    become_worker(std::move(received), argc, argv);
    return Side::worker;
  }
  while (between > 0 && waitpid(between, nullptr, 0) < 0 && errno == EINTR) continue;
  return Side::still_template;  // that the worker's socket closes tells the agent of a fork that failed
}

}  // namespace

void serve_as_template(int& argc, char**& argv) {
  const char* const variable = std::getenv(kTemplateVariable);
  if (!variable) return;
  const int socket = std::atoi(variable);  // NOLINT(bugprone-unchecked*): the agent's number
  const std::string hello = std::to_string(getpid());
  if (send(socket, hello.data(), hello.size(), MSG_NOSIGNAL) < 0) _exit(kLost);
  for (bool over = false; !over;) {
    std::optional<Received> received = next_request(socket, over);
    if (received && fork_worker(socket, std::move(*received), argc, argv) == Side::worker) return;
  }
  _exit(0);
}

}  // namespace ddprun

#include "agent/prefork/worker_template.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <string_view>
#include <utility>

#include "agent/channel/channel_page.h"
#include "agent/prefork/fork_obstacle.h"
#include "agent/prefork/python_hook.h"
#include "agent/process/exit_status.h"
#include "agent/process/files/file_content.h"
#include "agent/process/process_table.h"
#include "rendezvous/base/spelling.h"
#include "rendezvous/prefork/fork_request.h"

namespace ddprun::agent {
namespace {

constexpr int kLoadsMax = 3;                               // in a row, of templates that end before they are ready
constexpr std::size_t kHelloMax = std::size_t{64} * 1024;  // bytes
constexpr int kPythonIgnoresHook = 9;                      // the probe's exit code
constexpr const char* kImportVariable = "DDPRUN_TEMPLATE_IMPORT";
constexpr const char* kLearnVariable = "DDPRUN_TEMPLATE_LEARN";
constexpr const char* kProbe =
    "import sys; sys.exit(0 if hasattr(sys.modules.get('sitecustomize'), 'ddprun_template') else 9)";

// Below the channel's number, which a worker gets for its page.
int socket_number() { return channel_number() - 1; }
int hook_number() { return channel_number() - 2; }

Fd memory_file(const char* name, std::string_view content) {
  Fd fd(memfd_create(name, MFD_CLOEXEC));
  while (fd && !content.empty()) {
    const ssize_t written = write(fd.get(), content.data(), content.size());
    if (written <= 0) return {};
    content.remove_prefix(static_cast<std::size_t>(written));
  }
  return fd;
}

struct Pair {
  Fd ours, theirs;
};

Pair socket_pair() {
  std::array<int, 2> both{-1, -1};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, both.data()) != 0) return {};
  return {Fd(both[0]), Fd(both[1])};
}

void set(std::vector<std::string>& environment, const std::string& name, const std::string& value) {
  std::erase_if(environment, [&](const std::string& entry) { return entry.starts_with(name + "="); });
  environment.push_back(name + "=" + value);
}

std::string value_of(const std::vector<std::string>& environment, const std::string& name) {
  for (const std::string& entry : environment)
    if (entry.starts_with(name + "=")) return entry.substr(name.size() + 1);
  return {};
}

bool send_with(int socket, const std::vector<int>& fds) {
  char byte = 'F';
  iovec data{&byte, sizeof byte};
  alignas(cmsghdr) char control[CMSG_SPACE(kDescriptorsMax * sizeof(int))] = {};
  if (fds.size() > kDescriptorsMax) return false;
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
  cmsghdr* const part = CMSG_FIRSTHDR(&message);
  part->cmsg_level = SOL_SOCKET;
  part->cmsg_type = SCM_RIGHTS;
  part->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
  std::memcpy(CMSG_DATA(part), fds.data(), fds.size() * sizeof(int));
  return sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof byte;
}

struct Hello {
  std::string text;
  Fd files;
};

std::optional<Hello> receive_hello(int socket) {
  Hello out{std::string(kHelloMax, '\0'), Fd()};
  iovec data{out.text.data(), out.text.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  errno = 0;
  const ssize_t got = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (got <= 0) return {};
  out.text.resize(static_cast<std::size_t>(got));
  if (const cmsghdr* part = CMSG_FIRSTHDR(&message); part && part->cmsg_type == SCM_RIGHTS) {
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(part), sizeof fd);
    out.files = Fd(fd);
  }
  return out;
}

std::vector<std::string> fields_of(std::string_view text) {
  std::vector<std::string> out;
  for (std::size_t end = 0; !text.empty(); text.remove_prefix(std::min(end + 1, text.size()))) {
    end = std::min(text.find('\0'), text.size());
    out.emplace_back(text.substr(0, end));
  }
  return out;
}

std::string content_of(int fd) {
  if (fd < 0 || lseek(fd, 0, SEEK_SET) != 0) return {};
  std::string out;
  std::array<char, 16384> piece{};
  for (ssize_t got = 0; (got = read(fd, piece.data(), piece.size())) > 0;)
    out.append(piece.data(), static_cast<std::size_t>(got));
  return out;
}

// "<pid> <errno>", as a worker's socket says it.
std::optional<std::pair<pid_t, int>> parse_answer(std::string_view text) {
  std::pair<pid_t, int> out;
  const char* const end = text.data() + text.size();
  const auto pid = std::from_chars(text.data(), end, out.first);
  if (pid.ec != std::errc() || pid.ptr == end) return {};
  if (std::from_chars(pid.ptr + 1, end, out.second).ec != std::errc()) return {};
  return out;
}

bool is_our_child(pid_t pid) {
  siginfo_t info{};
  return waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

}  // namespace

WorkerTemplate::WorkerTemplate(asio::io_context& io, TemplateCommand command,
                               std::function<void(const std::string&)> say, std::function<void()> on_settled,
                               TemplateTiming timing)
    : io_(io),
      command_(std::move(command)),
      say_(std::move(say)),
      on_settled_(std::move(on_settled)),
      timing_(timing),
      timer_(io) {}

WorkerTemplate::~WorkerTemplate() { stop(); }

std::optional<pid_t> WorkerTemplate::child() const { return running_ ? std::optional(running_->pid) : std::nullopt; }

void WorkerTemplate::start() {
  if (!command_.python) return load();
  // A Python that ignores the hook would run the script.
  const Fd hook = memory_file("ddprun-template", python_hook());
  run(State::probing, spawn_with({command_.argv.front(), "-u", "-c", kProbe}, "probe", {{hook.get(), hook_number()}}));
}

Spawned WorkerTemplate::spawn_with(std::vector<std::string> argv, const std::string& variable,
                                   std::vector<PassedFd> passed) {
  static const Fd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  SpawnRequest request{command_.program, std::move(argv), command_.environment};
  request.stdin_fd = null.get();
  request.stdout_fd = STDERR_FILENO;
  request.passed = std::move(passed);
  request.core_dumps = command_.core_dumps;
  set(request.environment, kTemplateVariable, variable);
  // A pool of threads that exists before the fork does not exist after it.
  for (const char* const pool : {"OPENBLAS_NUM_THREADS", "BLIS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"})
    set(request.environment, pool, "1");
  if (command_.python) {
    const std::string own = "/proc/self/fd/" + std::to_string(hook_number());
    const std::string before = value_of(request.environment, "PYTHONPATH");
    set(request.environment, "PYTHONPATH", before.empty() ? own : own + ":" + before);
    set(request.environment, kImportVariable, command_.imports);
    if (!command_.learned.empty()) set(request.environment, kLearnVariable, command_.learned);
    set(request.environment, "PYTORCH_NVML_BASED_CUDA_CHECK", "1");  // CUDA itself must not be asked before a fork
  }
  return spawn(request);
}

void WorkerTemplate::run(State state, Spawned spawned) {
  if (spawned.error) return give_up(std::strerror(spawned.error));
  state_ = state;
  running_.emplace(Running{spawned.pid, asio::posix::stream_descriptor(io_, spawned.fd.release())});
  timer_.expires_after(timing_.load_max);
  timer_.async_wait([this](const asio::error_code& error) {
    if (!error) give_up("it was not loaded after " + std::to_string(timing_.load_max.count() / 1000) + " s");
  });
  await_end();
}

void WorkerTemplate::await_end() {
  running_->fd.async_wait(asio::posix::stream_descriptor::wait_read, [this](const asio::error_code& error) {
    if (!error) on_end();
  });
}

void WorkerTemplate::on_end() {
  siginfo_t info{};
  const bool waits = wait_child(running_->child(), info, WEXITED | WNOHANG | WNOWAIT) == 0;
  if (waits && info.si_pid == 0) return await_end();  // the reactor may wake us for an earlier descriptor
  const auto status = reap(running_->child(), running_->pid);
  running_.reset();
  const State was = std::exchange(state_, State::none);
  end_running();
  if (was == State::probing && status && status->ok()) return load();
  if (was == State::probing && status && status->code == kPythonIgnoresHook)
    return give_up("this Python ignores PYTHONPATH or sitecustomize");
  const std::string how = status ? in_words(*status) : "it ended";
  if (was != State::ready && ++failed_loads_ >= kLoadsMax) return give_up("it does not load: " + how);
  if (was == State::probing) return give_up(how);
  replace(how);
}

void WorkerTemplate::load() {
  Pair pair = socket_pair();
  if (!pair.ours) return give_up(std::strerror(errno));
  std::vector<PassedFd> passed{{pair.theirs.get(), socket_number()}};
  Fd hook;
  if (command_.python) {
    hook = memory_file("ddprun-template", python_hook());
    passed.push_back({hook.get(), hook_number()});
  }
  Spawned spawned = spawn_with(command_.argv, std::to_string(socket_number()), std::move(passed));
  socket_.emplace(io_, pair.ours.release());
  run(State::loading, std::move(spawned));
  if (running_) await_hello();
}

void WorkerTemplate::await_hello() {
  socket_->async_wait(asio::posix::stream_descriptor::wait_read, [this](const asio::error_code& error) {
    if (!error) on_hello();
  });
}

void WorkerTemplate::on_hello() {
  std::optional<Hello> hello = receive_hello(socket_->native_handle());
  if (!hello && errno == EAGAIN) return await_hello();  // woken for the descriptor that had this number before
  if (!hello) return;                                   // it ended, or is ending
  const std::vector<std::string> fields = fields_of(hello->text);
  pid_ = 0;
  std::from_chars(hello->text.data(), hello->text.data() + hello->text.size(), pid_);
  timer_.cancel();
  failed_loads_ = 0;
  state_ = State::ready;
  for (std::size_t i = 2; i < fields.size(); ++i) say_("--prefork could not import " + visible(fields[i]));
  if (fields.size() > 1 && !fields[1].empty())
    return give_up("it has another module of the name of " + visible(fields[1]) + " already");
  files_ = LoadedFiles(file_content(table_entry(pid_) / "maps"), fields_of(content_of(hello->files.get())));
  if (const std::string why = obstacle(); !why.empty()) return give_up("it " + why);
  settle();
}

void WorkerTemplate::settle() {
  if (std::exchange(awaited_, false)) on_settled_();
}

void WorkerTemplate::replace(const std::string& why) {
  usable_ = false;
  end_running();
  if (!why.empty()) say_("the workers' template is loaded again: " + why);
  if (!running_) start();  // else on_end() does
}

void WorkerTemplate::give_up(const std::string& why) {
  usable_ = false;
  stop();
  say_("workers are started without --prefork, as no template can be made: " + why);
  settle();
}

// It holds nothing that would have to be closed in order.
void WorkerTemplate::end_running() {
  timer_.cancel();
  socket_.reset();
  pid_ = 0;
}

void WorkerTemplate::stop() {
  end_running();
  state_ = State::none;
  if (!running_) return;
  kill(-running_->pid, SIGKILL);
  kill(running_->pid, SIGKILL);
  running_.reset();  // the loop's sweep of children reaps it
}

std::string WorkerTemplate::obstacle() {
  const std::vector<std::string> files = open_files(pid_);
  if (files == harmless_files_ && threads_of(table_entry(pid_)).size() == 1) return {};
  std::string why = fork_obstacle(pid_);
  if (why.empty()) harmless_files_ = files;
  return why;
}

void WorkerTemplate::begin_round() {
  usable_ = state_ == State::ready;
  forks_took_ = {};
  if (!usable_) {
    if (running_) say_("the workers' template is not loaded yet: this round's workers are started without it");
    return;
  }
  if (const std::string file = files_.changed(); !file.empty()) {
    stop();
    replace(visible(file) + " has changed, so this round's workers are started without it");
  } else if (const std::string why = obstacle(); !why.empty()) {
    give_up("it " + why);
  }
}

bool WorkerTemplate::fork(const SpawnRequest& request, Forked done) {
  if (!usable_) return false;
  if (forks_took_ >= timing_.forks_max) {
    usable_ = false;  // until the next round
    say_("the workers' template forks too slowly: the rest of this round's workers is started without it");
    return false;
  }
  ForkRequest wanted{.agent = getpid(),
                     .foreground_group = request.foreground_group,
                     .numbers = {},
                     .cpus = request.cpus,
                     .memory_nodes = request.memory_nodes,
                     .argv = request.argv,
                     .environment = request.environment};
  for (const PassedFd& one : request.passed) wanted.numbers.push_back(one.number);
  const Fd text = memory_file("ddprun-fork", to_text(wanted));
  Pair pair = socket_pair();
  std::vector<int> fds{text.get(), pair.theirs.get(), request.stdin_fd, request.stdout_fd, request.stderr_fd};
  for (const PassedFd& one : request.passed) fds.push_back(one.fd);
  if (!text || !pair.ours || !send_with(socket_->native_handle(), fds)) return no_answer(), false;
  forking_ = std::make_shared<Forking>(Forking{asio::posix::stream_descriptor(io_, pair.ours.release()),
                                               asio::steady_timer(io_, timing_.fork_max), Clock::now(),
                                               request.cgroup_fd, std::move(done)});
  forking_->timer.async_wait([this, of = std::weak_ptr(forking_)](const asio::error_code& error) {
    if (!error && !of.expired()) no_answer();
  });
  await_answer();
  return true;
}

void WorkerTemplate::await_answer() {
  forking_->worker.async_wait(asio::posix::stream_descriptor::wait_read,
                              [this, of = std::weak_ptr(forking_)](const asio::error_code& error) {
                                if (!error && !of.expired()) on_answer();
                              });
}

void WorkerTemplate::on_answer() {
  std::array<char, 64> text{};
  const int socket = forking_->worker.native_handle();
  const ssize_t got = recv(socket, text.data(), text.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return await_answer();
  const auto answer = parse_answer({text.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0))});
  Fd fd;
  if (answer && is_our_child(answer->first)) fd = child_descriptor(answer->first);
  if (!fd) return no_answer();
  forks_took_ += Clock::now() - forking_->began;
  if (forking_->cgroup_fd >= 0) {
    const Fd members(openat(forking_->cgroup_fd, "cgroup.procs", O_WRONLY | O_CLOEXEC));
    const std::string pid = std::to_string(answer->first);
    if (members) [[maybe_unused]]
      const auto written = write(members.get(), pid.data(), pid.size());
  }
  const auto forking = std::exchange(forking_, nullptr);
  forking->done(Spawned{answer->first, std::move(fd), 0, answer->second}, [socket] {
    const char byte = 1;
    return send(socket, &byte, 1, MSG_NOSIGNAL) == 1;
  });
}

void WorkerTemplate::no_answer() {
  const auto forking = std::exchange(forking_, nullptr);
  if (usable_) {  // else it has ended meanwhile
    stop();
    replace("it did not fork, so this round's workers are started without it");
  }
  if (forking) forking->done({}, {});
}

}  // namespace ddprun::agent

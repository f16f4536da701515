#include "agent/process/keeper.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>

#include "agent/process/children.h"
#include "agent/process/error_folder.h"
#include "agent/process/keeper_watch.h"
#include "rendezvous/base/error.h"
#include "rendezvous/base/fd.h"
#include "rendezvous/base/print_line.h"

namespace ddprun::agent {
namespace {

// Of an agent that has said that it exits: until it is killed, and until it is left.
constexpr timespec kExitLimit{1, 0};
constexpr std::chrono::seconds kLeaveLimit{2};

// A page shared by both processes: the agent's folder of error files, until the agent has removed it; and its exit
// code.
struct SharedPage {
  std::atomic<bool> is_set;
  std::atomic<bool> exits;
  int exit_code;
  char folder[PATH_MAX];
};
SharedPage* shared_page = nullptr;
int agents_end_of_death_pipe = -1;

void create_shared_page() {
  void* const at = mmap(nullptr, sizeof(SharedPage), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (at != MAP_FAILED) shared_page = static_cast<SharedPage*>(at);  // zeroed, that is empty
}

void remove_shared_folder() {
  if (!shared_page || !shared_page->is_set) return;
  if (remove_without_error_files(shared_page->folder))
    print_line(stderr, std::string("ddprun: the workers' error files are in ") + shared_page->folder);
}

void must(bool done, const char* what) {
  if (!done) throw Error(std::string("cannot start the agent: ") + what, std::strerror(errno));
}

[[noreturn]] void exit_with(int status) { _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status)); }

// The agent stops the workers; then we stop, as the shell expects. SIGCONT wakes us and is forwarded like any signal.
void stop_job(pid_t agent) {
  kill(agent, SIGTSTP);
  raise(SIGSTOP);
}

// The agent is not reaped yet, so the pid is still valid.
void forward(pid_t agent, int signal, bool from_terminal) {
  if (!from_terminal || sigqueue(agent, signal, {.sival_int = kFromTerminal}) != 0) kill(agent, signal);
}

void print_survivors(const std::vector<pid_t>& left) {
  for (const pid_t pid : left)
    print_line(stderr, "ddprun: process " + std::to_string(pid) +
                           " is still there after SIGKILL: the kernel holds it, or it belongs to another user.");
}

void reap_until_agent_ends(pid_t agent, std::vector<pid_t>& inherited) {
  int status = 0;
  for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
    std::erase(inherited, pid);  // its pid may be reused now
    if (pid != agent) continue;
    print_survivors(end_all_children(kEndLimit, std::move(inherited)));
    remove_shared_folder();
    exit_with(status);
  }
}

// Unless the kernel holds a thread of it, the agent is there to be reaped in a moment. It has no children left.
[[noreturn]] void end_with_agent(pid_t agent, std::vector<pid_t>& inherited) {
  sigset_t deaths;
  sigemptyset(&deaths);
  sigaddset(&deaths, SIGCHLD);
  while (sigtimedwait(&deaths, nullptr, &kExitLimit) == SIGCHLD) reap_until_agent_ends(agent, inherited);
  print_survivors(end_all_children(kLeaveLimit, std::move(inherited)));
  remove_shared_folder();
  _exit(shared_page->exit_code);
}

// A pipe that closes when the one process dies that keeps its write end; the other one has the read end.
struct DeathPipe {
  Fd read, write;
};

DeathPipe death_pipe() {
  int ends[2];
  must(pipe2(ends, O_CLOEXEC) == 0, "make a pipe");
  return {Fd(ends[0]), Fd(ends[1])};
}

// With a signal that also wakes a stopped process.
DeathPipe agent_death_pipe() {
  DeathPipe death = death_pipe();
  const int fd = death.read.get();
  const bool armed =
      fcntl(fd, F_SETOWN, getpid()) == 0 && fcntl(fd, F_SETSIG, SIGCONT) == 0 && fcntl(fd, F_SETFL, O_ASYNC) == 0;
  must(armed, "request a signal for a pipe's end");
  return death;
}

[[noreturn]] void run_keeper(pid_t agent, std::vector<pid_t> inherited) {
  prctl(PR_SET_NAME, "ddprun-keeper");  // killall by the agent's name must not kill both
  sigset_t all;
  sigfillset(&all);
  for (;;) {
    siginfo_t info{};
    const int signal = sigwaitinfo(&all, &info);
    if (signal == SIGCHLD)
      reap_until_agent_ends(agent, inherited);
    else if (shared_page && shared_page->exits)
      end_with_agent(agent, inherited);
    else if (signal == SIGTSTP)
      stop_job(agent);
    else if (signal > 0)
      forward(agent, signal, info.si_code == SI_KERNEL);
  }
}

// Every kernel knows it that ddprun runs on. An emulator may not: qemu's user mode, of version 7.
void become_subreaper() { must(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0 || errno == EINVAL, "become child subreaper"); }

void become_agent(int keeper_fd) {
  prctl(PR_SET_PDEATHSIG, SIGCONT);  // wakes us at the keeper's death
  setpgid(0, 0);                     // `kill -9 %1` in a shell signals the group: it must not kill both
  signal(SIGTTOU, SIG_IGN);          // we write to the terminal from the background
  become_subreaper();
  watch_keeper_in_thread(keeper_fd);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);  // also what our parent had blocked: a blocked signal could not stop us
}

}  // namespace

bool is_child_subreaper() {
  int is_one = 0;
  return prctl(PR_GET_CHILD_SUBREAPER, &is_one) == 0 && is_one != 0;
}

void let_keeper_remove(const std::filesystem::path& folder) {
  if (!shared_page) return;
  shared_page->is_set = false;
  if (folder.empty() || folder.native().size() >= sizeof shared_page->folder) return;
  std::strcpy(shared_page->folder, folder.c_str());
  shared_page->is_set = true;
}

void tell_keeper_of_exit(int code) {
  if (!shared_page) return;
  shared_page->exit_code = code;
  shared_page->exits = true;
  close(agents_end_of_death_pipe);  // wakes it
}

int continue_under_keeper(void (*in_keeper)()) {
  std::signal(SIGCHLD, SIG_DFL);  // some parents leave it ignored: then no child's end would be reported
  sigset_t all;
  sigfillset(&all);
  must(sigprocmask(SIG_SETMASK, &all, nullptr) == 0, "block signals");  // none may be lost between fork and sigwaitinfo
  const std::vector<pid_t> inherited = children();                      // of the shell that became us by exec
  become_subreaper();
  DeathPipe agent_death = agent_death_pipe(), keeper_death = death_pipe();
  create_shared_page();
  const pid_t agent = fork();
  must(agent >= 0, "fork");
  if (agent > 0) {
    agent_death.write.reset();
    keeper_death.read.reset();
    in_keeper();
    run_keeper(agent, inherited);
  }
  agent_death.read.reset();
  keeper_death.write.reset();
  agents_end_of_death_pipe = agent_death.write.release();  // stays open as long as we live
  become_agent(keeper_death.read.get());
  return keeper_death.read.release();
}

}  // namespace ddprun::agent

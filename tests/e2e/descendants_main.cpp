// The worker that makes descendants (descendants.h). Not sanitized: it should start as fast as a shell.
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

#include "rendezvous/prefork/template_process.h"
#include "tests/e2e/descendants.h"

extern char** environ;

namespace {

using namespace ddprun::test;
using std::filesystem::exists;
using std::filesystem::path;

[[gnu::used, gnu::retain]] const char kMark[] = "ddprun7prefork";  // as a program has that calls ddprun::prefork()

constexpr unsigned kLifeSeconds = 600;  // in case the test itself dies
constexpr useconds_t kLookUs = 1'000, kPidChangeUs = 200;
constexpr int kPidChangesMax = 3'000;  // each leaves a zombie if nobody reaps it, and pids are few

path folder;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

void tell(const std::string& name) { close(creat((folder / name).c_str(), 0600)); }

void deafen() {
  sigset_t all;
  sigfillset(&all);
  sigdelset(&all, SIGALRM);
  sigprocmask(SIG_SETMASK, &all, nullptr);
}

[[noreturn]] void wait_for_ever() {
  for (;;) pause();
}

[[noreturn]] void become(const std::string& name, bool keep_environment) {
  const std::string kind_and_name[] = {folder.string(), kDescendantWord, name};
  char self[PATH_MAX] = {};
  if (readlink("/proc/self/exe", self, sizeof self - 1) < 0) _exit(126);
  char* const nothing[] = {nullptr};
  char* words[] = {self, const_cast<char*>(kind_and_name[0].c_str()), const_cast<char*>(kind_and_name[1].c_str()),
                   const_cast<char*>(kind_and_name[2].c_str()), nullptr};
  execve(self, words, keep_environment ? environ : nothing);
  _exit(127);
}

pid_t by_fork(const std::string& name) {
  const pid_t pid = fork();
  if (pid == 0) become(name, true);
  return pid;
}

pid_t without_environment(const std::string& name) {
  const pid_t pid = fork();
  if (pid == 0) become(name, false);
  return pid;
}

pid_t by_double_fork(const std::string& name) {
  const pid_t middle = fork();
  if (middle == 0) _exit(by_fork(name) > 0 ? 0 : 1);
  waitpid(middle, nullptr, 0);
  return middle;
}

// Starts a child of our parent, which does not know of it.
pid_t as_sibling(const std::string& name) {
  const auto pid = static_cast<pid_t>(syscall(SYS_clone, CLONE_PARENT | SIGCHLD, nullptr, nullptr, nullptr, nullptr));
  if (pid == 0) become(name, true);
  return pid;
}

pid_t until_stopped(const std::string& name) {
  const pid_t pid = by_fork(name);
  waitpid(pid, nullptr, WUNTRACED);
  tell(name);
  return pid;
}

void just_live(const std::string& name) { tell(name); }

void be_deaf(const std::string& name) {
  deafen();
  tell(name);
}

void leave_session(const std::string& name) {
  setsid();
  tell(name);
}

void be_daemon(const std::string& name) {
  setsid();
  be_deaf(name);
}

void stop(const std::string&) { raise(SIGSTOP); }  // our parent reports that we are up

void change_pid(const std::string& name) {
  for (int changes = 1; changes <= kPidChangesMax && exists(folder); ++changes) {
    if (fork() > 0) _exit(0);
    alarm(kLifeSeconds);
    if (changes == 1) tell(name);
    usleep(kPidChangeUs);
  }
}

void adopt(const std::string& name) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  by_double_fork(name + "-ward");
  while (!exists(folder / (name + "-ward"))) usleep(kLookUs);
  tell(name);
}

void close_all(const std::string& name) {
  syscall(SYS_close_range, 0, INT_MAX, 0);
  tell(name);
}

bool has_ended(pid_t thread) {
  std::ifstream stat("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string pid, name, state;
  return stat >> pid >> name >> state && state == "Z";
}

void end_main_thread(const std::string& name) {
  std::thread([name, main_thread = getpid()] {
    while (!has_ended(main_thread)) usleep(kLookUs);
    tell(name);
    wait_for_ever();
  }).detach();
  pthread_exit(nullptr);
}

struct Kind {
  const char* name;
  pid_t (*start)(const std::string& name);  // by the worker
  void (*live)(const std::string& name);    // in the new process; it waits forever afterwards
};

constexpr Kind kKinds[] = {
    {"plain", by_fork, just_live},
    {"deaf", by_fork, be_deaf},
    {"session", by_fork, leave_session},
    {"double-forked", by_double_fork, just_live},
    {"daemon", by_double_fork, be_daemon},
    {"stopped", until_stopped, stop},
    {"bare", without_environment, just_live},
    {"pid-changer", by_fork, change_pid},
    {"subreaper", by_fork, adopt},
    {"closed", by_fork, close_all},
    {"headless", by_fork, end_main_thread},
    {"sibling", as_sibling, just_live},
};

const Kind* kind_named(const std::string& name) {
  const auto* found =
      std::find_if(std::begin(kKinds), std::end(kKinds), [&](const Kind& kind) { return name == kind.name; });
  return found == std::end(kKinds) ? nullptr : found;
}

void live_as(const std::string& name) {  // ROUND.RANK.KIND; a subreaper's orphan has no kind
  if (const Kind* kind = kind_named(name.substr(name.rfind('.') + 1)))
    kind->live(name);
  else
    tell(name);
}

std::string round_of(const Descendant& one) {
  const auto word = std::find(one.words.begin(), one.words.end(), kDescendantWord);
  return word == one.words.end() ? "" : word[1].substr(0, word[1].find('.'));
}

void tell_of_earlier_rounds(const std::string& round) {
  std::string found;
  for (const Descendant& one : processes_of(folder))
    if (const auto theirs = round_of(one); !theirs.empty() && theirs != round) found += " " + one.words.back();
  std::printf("round %s found:%s.\n", round.c_str(), found.c_str());
}

bool start_all(const std::string& kinds, const std::string& prefix) {
  std::istringstream list(kinds);
  for (std::string name; std::getline(list, name, ',');) {
    const Kind* kind = kind_named(name);
    if (!kind || kind->start(prefix + name) < 0) return false;
  }
  return true;
}

void wait_until_up(const std::string& kinds, const std::string& prefix) {
  std::istringstream list(kinds);
  for (std::string name; std::getline(list, name, ',');)
    while (!exists(folder / (prefix + name))) usleep(kLookUs);
  tell(prefix + "up");
}

int then_do(const std::string& then, const std::string& round, const std::string& rank) {
  if (then == "wait") wait_for_ever();
  if (then == "deaf") deafen(), tell(round + "." + rank + ".deaf"), wait_for_ever();
  if (then == "fail-once") return round == "1" ? 3 : 0;
  if (then == "rank-0-leaves")
    while (rank != "0" && !exists(folder / "go")) usleep(kLookUs);
  return then.rfind("exit:", 0) == 0 ? std::stoi(then.substr(5)) : 0;
}

int be_worker(const std::string& kinds, const std::string& then) {
  const std::string round = variable("DDPRUN_ROUND"), rank = variable("RANK"), prefix = round + "." + rank + ".";
  if (round != "1") tell_of_earlier_rounds(round);
  std::fflush(stdout);
  if (!start_all(kinds, prefix)) return 9;
  wait_until_up(kinds, prefix);
  return then_do(then, round, rank);
}

}  // namespace

int main(int argc, char** argv) {
  ddprun::serve_as_template(argc, argv);
  alarm(kLifeSeconds);
  folder = argv[1];
  if (argv[2] != std::string(kDescendantWord)) return be_worker(argv[2], argv[3]);
  live_as(argv[3]);
  wait_for_ever();
}

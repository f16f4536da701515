// A worker that may be forked from a template. It prints what a worker gets from its launcher, one line for each rank,
// and then does what its arguments say:
//   exit=ROUND:CODE       exits with this code in this round, others go on
//   until=ROUND           fails in all rounds before this one
//   thread, listen        before the template waits, has what a fork loses
//   wait                  sleeps
#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "rendezvous/prefork/template_process.h"

extern char** environ;

namespace {

[[gnu::used, gnu::retain]] const char kMark[] = "ddprun7prefork";  // as a program has that calls ddprun::prefork()

bool has(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::string first_line(const std::string& file) {
  std::string line;
  std::getline(std::ifstream(file), line);
  return line;
}

std::string signals() {
  std::string ignored;
  for (int signal = 1; signal <= 31; ++signal) {
    struct sigaction now {};
    if (sigaction(signal, nullptr, &now) == 0 && now.sa_handler != SIG_DFL) ignored += " " + std::to_string(signal);
  }
  sigset_t blocked;
  sigprocmask(SIG_SETMASK, nullptr, &blocked);
  for (int signal = 1; signal <= 31; ++signal)
    if (sigismember(&blocked, signal)) ignored += " blocked " + std::to_string(signal);
  return ignored;
}

// Of variables that differ from run to run only the names.
std::string environment() {
  std::vector<std::string> all;
  for (char** entry = environ; *entry; ++entry) {
    const std::string text = *entry, name = text.substr(0, text.find('='));
    const bool varies = name == "MASTER_PORT" || name == "TORCHELASTIC_RUN_ID" || name == "TORCHELASTIC_ERROR_FILE" ||
                        name == "DDPRUN_RECORD" || name == "DDPRUN_JOB" || name.starts_with("DDPRUN_TEST");
    all.push_back(varies ? name : text);
  }
  std::sort(all.begin(), all.end());
  std::string out;
  for (const std::string& entry : all) out += " " + entry;
  return out;
}

std::string descriptors() {
  std::vector<std::string> all;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const auto link = std::filesystem::read_symlink(entry.path(), gone);
    if (!gone && !link.string().ends_with("/fd")) all.push_back(entry.path().filename().string());
  }
  std::sort(all.begin(), all.end());
  std::string out;
  for (const std::string& fd : all) out += " " + fd;
  return out;
}

std::string facts(const std::vector<std::string>& arguments) {
  int death_signal = 0;
  prctl(PR_GET_PDEATHSIG, &death_signal);
  rlimit core{};
  getrlimit(RLIMIT_CORE, &core);
  cpu_set_t cpus;
  sched_getaffinity(0, sizeof cpus, &cpus);
  std::string text = "arguments";
  for (const std::string& argument : arguments) text += " " + argument;
  text += "; leads its session " + std::to_string(getsid(0) == getpid()) + "; group " +
          std::to_string(getpgid(0) == getpid());
  text += "; death signal " + std::to_string(death_signal) + "; core " + std::to_string(core.rlim_cur);
  text += "; CPUs " + std::to_string(CPU_COUNT(&cpus)) + "; oom " + first_line("/proc/self/oom_score_adj");
  text += "; parent " + first_line("/proc/" + std::to_string(getppid()) + "/comm") + "; signals" + signals();
  text += "; descriptors" + descriptors() + "; environment" + environment();
  std::ifstream shown("/proc/self/environ");
  const std::string rank = std::string("RANK=") + std::getenv("RANK");
  bool in_proc = false;
  for (std::string entry; std::getline(shown, entry, '\0');) in_proc |= entry == rank;
  return text + "; in /proc " + std::to_string(in_proc);
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  if (has(words, "thread")) std::thread([] { pause(); }).detach();
  if (has(words, "listen")) {
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (listen(fd, 1) != 0) return std::perror("listen"), 1;
  }
  const bool by_template = std::getenv("DDPRUN_TEMPLATE");
  ddprun::serve_as_template(argc, argv);
  words.assign(argv + 1, argv + argc);
  const std::string rank = std::getenv("RANK"), round = std::getenv("DDPRUN_ROUND");
  std::string out = "rank " + rank + " round " + round + (by_template ? " forked " : " started ") + facts(words) + "\n";
  if (write(STDOUT_FILENO, out.data(), out.size()) < 0) return 1;
  for (const std::string& word : words) {
    if (word.starts_with("exit=" + round + ":")) return std::atoi(word.substr(word.find(':') + 1).c_str());
    if (word.starts_with("until=") && std::atoi(round.c_str()) < std::atoi(word.substr(6).c_str()))
      return 10 + std::atoi(round.c_str());  // not the same failure twice
  }
  if (has(words, "wait")) pause();
  return 0;
}

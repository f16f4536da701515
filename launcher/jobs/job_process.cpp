#include "launcher/jobs/job_process.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "rendezvous/base/child_process.h"
#include "rendezvous/base/error.h"

namespace ddprun::launcher {
namespace {

constexpr int kSignalBase = 128;

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> out;
  for (const std::string& word : words) out.push_back(const_cast<char*>(word.c_str()));
  out.push_back(nullptr);
  return out;
}

[[noreturn]] void become(const std::string& program, char* const* argv, char* const* environment, pid_t parent,
                         int stdout_fd, int stderr_fd) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // the agent ends all processes of the job when its keeper dies
  if (getppid() != parent) _exit(kSignalBase + SIGKILL);
  if (stdout_fd != STDOUT_FILENO) dup2(stdout_fd, STDOUT_FILENO);
  if (stderr_fd != STDERR_FILENO) dup2(stderr_fd, STDERR_FILENO);
  for (const int ignored : {SIGPIPE, SIGXFSZ}) signal(ignored, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execve(program.c_str(), argv, environment);
  _exit(127);
}

}  // namespace

JobProcess start_job_process(const std::string& program, const std::vector<std::string>& argv,
                             const std::vector<std::string>& environment, int stdout_fd, int stderr_fd) {
  const std::vector<char*> words = pointers(argv), variables = pointers(environment);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) become(program, words.data(), variables.data(), parent, stdout_fd, stderr_fd);
  if (pid < 0) throw Error("cannot start " + program, std::strerror(errno));
  Fd fd = child_descriptor(pid);
  if (fd) return {pid, std::move(fd)};
  const std::string why = std::strerror(errno);
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  throw Error("cannot start " + program, why);
}

int exit_code_of(const JobProcess& process) {
  int status = 0;
  while (waitpid(process.pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFSIGNALED(status) ? kSignalBase + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace ddprun::launcher

#include "launcher/starter.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <charconv>
#include <csignal>
#include <cstdlib>
#include <string_view>

#include "agent/process/process_table.h"
#include "launcher/config/exit_codes.h"

namespace ddprun::launcher {
namespace {

constexpr const char* kStartedByVariable = "DDPRUN_STARTED_BY";

pid_t pid_from(std::string_view text) {
  pid_t pid = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), pid);
  return error == std::errc{} && end == text.data() + text.size() ? pid : 0;
}

}  // namespace

bool take_starter_variable() {
  const char* const value = std::getenv(kStartedByVariable);
  const pid_t starter = pid_from(value ? value : "");
  unsetenv(kStartedByVariable);
  if (starter < 1) return false;
  // SIGKILL: the agent ends all processes of the job within a second of its keeper's death. The signal belongs to the
  // thread that started us, so that one has to live as long as its process.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() == starter) return true;
  prctl(PR_SET_PDEATHSIG, 0);
  const auto stat = agent::task_stat(starter);
  if (!stat || stat->is_dead()) _exit(kInterrupted + SIGKILL);
  return false;
}

}  // namespace ddprun::launcher

// A worker for the benches of deaths: stamp_worker FOLDER [MIB attach|apart] writes the time of its first line into
// FOLDER/PID, then only sleeps. With MIB rank 0 first fills so much memory and writes FOLDER/heavy-PID instead; the
// others write FOLDER/light-PID and, when they are asked to leave, FOLDER/signalled-PID.
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "rendezvous/channel/worker_channel.h"
#include "tests/bench/stamp.h"

namespace {

bool sleep_after_stamp(const std::string& folder, const std::string& prefix) {
  const bool written = ddprun::stamp(folder, prefix);
  while (written) pause();
  return false;
}

bool stamp_when_signalled(const std::string& folder) {
  sigset_t term;
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  sigprocmask(SIG_BLOCK, &term, nullptr);
  int signal = 0;
  return ddprun::stamp(folder, "light-") && sigwait(&term, &signal) == 0 && ddprun::stamp(folder, "signalled-");
}

}  // namespace

int main(int argc, char** argv) {
  const char* rank = std::getenv("RANK");
  if ((argc != 2 && argc != 4) || !rank)
    return std::fputs("usage: RANK=R stamp_worker FOLDER [MIB attach|apart]\n", stderr), 2;
  const std::string folder = argv[1];
  if (argc == 4 && std::strcmp(argv[3], "attach") == 0 && !ddprun_channel_attach())
    return std::fputs("stamp_worker: there is no worker channel\n", stderr), 1;
  const bool heavy = std::strcmp(rank, "0") == 0;
  const std::vector<char> memory(argc == 4 && heavy ? std::strtoul(argv[2], nullptr, 10) << 20 : 0, 1);
  const bool done =
      argc == 4 && !heavy ? stamp_when_signalled(folder) : sleep_after_stamp(folder, argc == 4 ? "heavy-" : "");
  return done ? 0 : (std::perror("stamp_worker"), 1);
}

// A worker for the death bench. Rank 0 fills MIB of memory, writes FOLDER/heavy-PID and waits for its end; the others
// write FOLDER/light-PID and, when they are asked to leave, FOLDER/signalled-PID.
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "rendezvous/channel/worker_channel.h"
#include "tests/bench/stamp.h"

namespace {

int run_heavy(const std::string& folder, std::size_t mib) {
  const std::vector<char> memory(mib << 20, 1);
  if (!ddprun::stamp(folder, "heavy-")) return std::perror("heavy_worker"), 1;
  for (;;) pause();
}

int run_light(const std::string& folder) {
  sigset_t term;
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  sigprocmask(SIG_BLOCK, &term, nullptr);
  int signal = 0;
  const bool signalled = ddprun::stamp(folder, "light-") && sigwait(&term, &signal) == 0;
  return signalled && ddprun::stamp(folder, "signalled-") ? 0 : (std::perror("heavy_worker"), 1);
}

}  // namespace

int main(int argc, char** argv) {
  const char* rank = std::getenv("RANK");
  if (argc != 4 || !rank) return std::fputs("usage: RANK=R heavy_worker FOLDER MIB attach|apart\n", stderr), 2;
  if (std::strcmp(argv[3], "attach") == 0 && !ddprun_channel_attach())
    return std::fputs("heavy_worker: there is no worker channel\n", stderr), 1;
  return std::strcmp(rank, "0") == 0 ? run_heavy(argv[1], std::strtoul(argv[2], nullptr, 10)) : run_light(argv[1]);
}

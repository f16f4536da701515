// A worker whose steps are synchronised like a trainer's: in each it waits for all others, in the store. Does what
// ddprun asks, and prints it.
//   step_worker [fail]    fail: rank 1 exits with 3 after its tenth step
#include <cstdio>
#include <cstring>
#include <string>

#include "ddprun/worker.h"
#include "rendezvous/store/client.h"
#include "trainer/ddp/group/rank_env.h"

namespace {

constexpr std::chrono::seconds kLimit{60};
constexpr std::uint64_t kUp = 10;

void say(const std::string& words) {
  std::printf("%s\n", words.c_str());
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) try {
  const bool fails = argc > 1 && std::strcmp(argv[1], "fail") == 0;
  ddprun::Worker worker;
  const auto env = ddprun::read_rank_env(ddprun::process_environment()).env;
  ddprun::rendezvous::Client store({.host = env.master_addr, .port = env.master_port, .timeout = kLimit});
  const auto meet = [&](const std::string& where) {
    const std::string key = "meet/" + where + "/";
    if (store.add(key + "there", 1) == env.world_size) store.set(key + "all", "");
    store.wait({key + "all"});
  };
  const std::string who = std::to_string(env.rank);
  worker.phase(ddprun::Phase::training);
  for (std::uint64_t step = 1;; ++step) {
    meet(std::to_string(step));
    if (step == kUp) say("up " + who);
    if (step == kUp && fails && env.rank == 1) return 3;
    const auto asked = worker.step_done(step);
    if (asked == ddprun::Asked::nothing) continue;
    if (asked == ddprun::Asked::to_leave) return say("leaves " + who), 0;
    meet("save");  // a collective: it returns only if all save
    worker.saved(step);
    if (store.add("done", 1) == env.world_size) store.set("all_done", "");
    if (env.group_rank == 0) store.wait({"all_done"});  // the store ends with its node's workers
    return say("rank " + who + " saves at " + std::to_string(step) + "."), 0;
  }
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}

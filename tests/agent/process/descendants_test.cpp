#include "agent/process/descendants.h"

#include "agent/process/process_table.h"
#include "tests/support/catch.h"
#include "tests/support/command.h"

using namespace ddprun;
using namespace ddprun::agent;
using namespace ddprun::test;

namespace {

constexpr std::chrono::seconds kLimit{30};

bool is_alive(pid_t pid) {
  const auto stat = task_stat(pid);
  return stat && !stat->is_dead();
}

}  // namespace

TEST_CASE("descendants are killed, also those in sessions of their own, but neither their ancestor nor the spared",
          "[descendants]") {
  Command parent(
      {"sh", "-c", "MARK=a sleep 600 & MARK=b setsid sh -c 'MARK=c sleep 600; :' & MARK=d sleep 600 & echo up; wait"});
  parent.wait_for_output("up", kLimit);
  const auto one = [&](const char* mark) { return parent.wait_for_process("MARK", mark, kLimit); };
  const pid_t a = one("a"), b = one("b"), c = one("c"), d = one("d");
  kill_descendants(parent.pid(), {d});
  CHECK(eventually([&] { return !is_alive(a) && !is_alive(b) && !is_alive(c); }, kLimit));
  CHECK(is_alive(d));
  CHECK(is_alive(parent.pid()));
  kill_descendants(parent.pid());
  CHECK(eventually([&] { return !is_alive(d); }, kLimit));
}

#include "agent/process/process_table.h"

#include "agent/process/descendants.h"
#include "agent/process/process_state.h"
#include "agent/process/stuck_watch.h"
#include "tests/support/test.h"

namespace {

std::string line_of(const std::string& name, const std::string& flags = "4194560") {
  return "4711 (" + name + ") S 17 4711 4242 34816 4711 " + flags +
         " 1184 0 0 0 3 1 0 0 20 0 8 0 567890 9420800 1032 18446744073709551615 1 2 3 0 0 0 0 4 5 0 0 0 17 1 0 0 0 0 0 "
         "1 2 3 4 5 6 7 256\n";
}

bool among_all(pid_t pid) {
  const auto all = all_processes();
  return std::find(all.begin(), all.end(), pid) != all.end();
}

bool is_alive(pid_t pid) {
  const auto stat = task_stat(pid);
  return stat && !stat->is_dead();
}

}  // namespace

TEST_CASE("a line of a stat file is read field by field", "[process_table]") {
  const auto stat = parse_task_stat(line_of("python"));
  REQUIRE(stat);
  CHECK(stat->state == 'S');
  CHECK(stat->parent == 17);
  CHECK(stat->session == 4242);
  CHECK(stat->flags == 4194560);
  CHECK(stat->threads == 8);
  CHECK(stat->start_time == 567890);
  CHECK(stat->cpu_s == 4.0 / static_cast<double>(sysconf(_SC_CLK_TCK)));
  CHECK(stat->wait_status == 256);
}

TEST_CASE("a process may have any name", "[process_table]") {
  for (const char* name : {"a b", "a) R 1 2 3", ") S (", "))", "", "two\nlines"}) {
    INFO(name);
    const auto stat = parse_task_stat(line_of(name));
    REQUIRE(stat);
    CHECK(stat->parent == 17);
    CHECK(stat->wait_status == 256);
  }
  const TempFolder folder;
  fs::create_symlink("/bin/sleep", folder / "a) R 1 (b c");
  const Command child({folder / "a) R 1 (b c", "600"});
  CHECK(eventually([&] { return read_file(table_entry(child.pid()) / "comm") == "a) R 1 (b c\n"; }, 10s));
  const auto stat = task_stat(child.pid());
  REQUIRE(stat);
  CHECK(stat->parent == getpid());
  CHECK(stat->session == child.pid());
}

TEST_CASE("a line that is not whole says nothing", "[process_table]") {
  const std::string line = line_of("python");
  const std::size_t last_field = line.rfind(' ');
  for (std::size_t size = 0; size <= last_field; ++size) {
    INFO(line.substr(0, size));
    CHECK_FALSE(parse_task_stat(line.substr(0, size)));
  }
}

TEST_CASE("the kernel's flags tell what a process is about", "[process_table]") {
  const auto plain = parse_task_stat(line_of("python"));
  CHECK_FALSE(plain->is_exiting());
  CHECK_FALSE(plain->ends_by_signal());
  CHECK_FALSE(plain->is_kernel_thread());
  CHECK(parse_task_stat(line_of("python", "4"))->is_exiting());
  CHECK(parse_task_stat(line_of("python", "1028"))->ends_by_signal());
  CHECK(parse_task_stat(line_of("kthreadd", "2129984"))->is_kernel_thread());
}

TEST_CASE("a process that has gone is not in the table", "[process_table]") {
  Command child({"sleep", "600"});
  const auto before = task_stat(child.pid());
  REQUIRE(before);
  CHECK_FALSE(before->is_dead());
  CHECK(before->start_time > 0);
  CHECK(among_all(child.pid()));
  CHECK_FALSE(threads_of(table_entry(child.pid())).empty());  // the sanitizer adds one of its own
  child.kill(SIGKILL);
  CHECK(eventually([&] { return task_stat(child.pid()).value_or(TaskStat()).is_dead(); }, 10s));
  CHECK(task_stat(child.pid())->start_time == before->start_time);
  child.wait_exit(10s);
  CHECK_FALSE(task_stat(child.pid()));
  CHECK_FALSE(among_all(child.pid()));
  CHECK(threads_of(table_entry(child.pid())).empty());
  CHECK_FALSE(is_pending(table_entry(child.pid()), SIGKILL));
}

TEST_CASE("a signal that a thread has blocked is pending", "[process_table]") {
  sigset_t usr2, before;
  sigemptyset(&usr2);
  sigaddset(&usr2, SIGUSR2);
  pthread_sigmask(SIG_BLOCK, &usr2, &before);
  const auto self = table_entry(getpid()) / "task" / std::to_string(gettid());
  CHECK_FALSE(is_pending(self, SIGUSR2));
  pthread_kill(pthread_self(), SIGUSR2);
  CHECK(is_pending(self, SIGUSR2));
  CHECK_FALSE(is_pending(self, SIGUSR1));
  int taken = 0;
  sigwait(&usr2, &taken);
  CHECK_FALSE(is_pending(self, SIGUSR2));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

TEST_CASE("descendants are killed, also those in sessions of their own, but neither their ancestor nor the spared",
          "[descendants]") {
  Command parent(
      {"sh", "-c", "MARK=a sleep 600 & MARK=b setsid sh -c 'MARK=c sleep 600; :' & MARK=d sleep 600 & echo up; wait"});
  parent.wait_for_output("up", 30s);
  const auto one = [&](const char* mark) { return parent.wait_for_process("MARK", mark, 30s); };
  const pid_t a = one("a"), b = one("b"), c = one("c"), d = one("d");
  kill_descendants(parent.pid(), {d});
  CHECK(eventually([&] { return !is_alive(a) && !is_alive(b) && !is_alive(c); }, 30s));
  CHECK(is_alive(d));
  CHECK(is_alive(parent.pid()));
  kill_descendants(parent.pid());
  CHECK(eventually([&] { return !is_alive(d); }, 30s));
}

TEST_CASE("the state of a process is what the kernel shows", "[process_state]") {
  CHECK(process_state(getpid()).letter == 'R');
  CHECK(process_state(0).letter == '?');
  const Command child({"sleep", "600"});
  CHECK(eventually([&] { return process_state(child.pid()).letter == 'S'; }, 10s));
}

TEST_CASE("who is still there after SIGKILL is told with the likely cause", "[process_state]") {
  CHECK(
      survival_in_words({'D', "rpc_wait_bit_killable"}) ==
      "the kernel holds it in rpc_wait_bit_killable (state D), as for a driver or a file server that does not answer");
  CHECK(survival_in_words({'D', ""}) ==
        "the kernel holds it (state D), as for a driver or a file server that does not answer");
  CHECK(survival_in_words({'S', ""}) == "it belongs to another user, or the kernel holds it (state S)");
  CHECK(survival_in_words({}) == "the kernel holds it, or it belongs to another user");
}

TEST_CASE("a worker that sleeps in the kernel at every look is told once the limit is over", "[stuck_watch]") {
  const TimePoint t0{};
  StuckWatch watch(10s);
  CHECK_FALSE(watch.update({}, t0));
  CHECK_FALSE(watch.update({1, 2}, t0 + 1s));
  CHECK_FALSE(watch.update({1, 2}, t0 + 10s));
  CHECK(watch.update({2}, t0 + 11s) == 2);
  CHECK_FALSE(watch.update({1}, t0 + 12s));  // it was awake: the limit begins anew
  CHECK_FALSE(watch.update({1}, t0 + 21s));
  CHECK(watch.update({1}, t0 + 22s) == 1);
}

TEST_CASE("looks come often enough for the limit, and not too often", "[stuck_watch]") {
  CHECK(StuckWatch(1h).pause() == 1s);
  CHECK(StuckWatch(2s).pause() == 500ms);
  CHECK(StuckWatch(1ms).pause() == 10ms);
}

#include "agent/process/process_table.h"

#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "tests/support/catch.h"
#include "tests/support/command.h"

using namespace ddprun;
using namespace ddprun::agent;
using namespace ddprun::test;
using namespace std::chrono_literals;

namespace {

std::string line_of(const std::string& name, const std::string& flags = "4194560") {
  return "4711 (" + name + ") S 17 4711 4242 34816 4711 " + flags +
         " 1184 0 0 0 3 1 0 0 20 0 8 0 567890 9420800 1032 18446744073709551615 1 2 3 0 0 0 0 4 5 0 0 0 17 1 0 0 0 0 0 "
         "1 2 3 4 5 6 7 256\n";
}

// A child under a name of its own that waits to be killed.
class Child {
 public:
  explicit Child(const char* name = "child") {
    int ready[2];
    REQUIRE(pipe(ready) == 0);
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_NAME, name);
      close(ready[1]);
      close(ready[0]);
      for (;;) pause();
    }
    close(ready[1]);
    char end;
    REQUIRE(read(ready[0], &end, 1) == 0);  // it has its name
    close(ready[0]);
  }
  ~Child() { end(); }
  pid_t pid() const { return pid_; }
  void kill() const { ::kill(pid_, SIGKILL); }
  void end() {
    if (ended_) return;
    kill();
    waitpid(pid_, nullptr, 0);
    ended_ = true;
  }

 private:
  pid_t pid_ = 0;
  bool ended_ = false;
};

bool among_all(pid_t pid) {
  const auto all = all_processes();
  return std::find(all.begin(), all.end(), pid) != all.end();
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
  const Child child("a) R 1 (b c");
  const auto stat = task_stat(child.pid());
  REQUIRE(stat);
  CHECK(stat->parent == getpid());
  CHECK(stat->session == getsid(0));
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
  Child child;
  const auto before = task_stat(child.pid());
  REQUIRE(before);
  CHECK_FALSE(before->is_dead());
  CHECK(before->start_time > 0);
  CHECK(among_all(child.pid()));
  CHECK_FALSE(threads_of(table_entry(child.pid())).empty());  // the sanitizer adds one of its own
  child.kill();
  CHECK(eventually([&] { return task_stat(child.pid()).value_or(TaskStat()).is_dead(); }, 10s));
  CHECK(task_stat(child.pid())->start_time == before->start_time);
  child.end();
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

// What decides whether workers may be forked from a template.
#include <sys/prctl.h>
#include <sys/socket.h>

#include <asio/post.hpp>

#include "agent/prefork/fork_obstacle.h"
#include "agent/prefork/loaded_files.h"
#include "agent/prefork/worker_template.h"
#include "agent/process/children.h"
#include "agent/process/files/file_content.h"
#include "rendezvous/base/fd.h"
#include "rendezvous/prefork/fork_request.h"
#include "tests/support/test.h"

TEST_CASE("a request for a fork arrives as it was sent, and nothing else is taken for one", "[prefork]") {
  const ForkRequest sent{.agent = 12,
                         .foreground_group = 7,
                         .numbers = {61, 5},
                         .cpus = {0, 3},
                         .memory_nodes = {1},
                         .argv = {"/bin/p", "", "a b\n"},
                         .environment = {"A=", "B=c=d"}};
  const auto got = parse_fork_request(to_text(sent));
  REQUIRE(got);
  CHECK(got->agent == 12);
  CHECK(got->foreground_group == 7);
  CHECK(got->numbers == sent.numbers);
  CHECK(got->cpus == sent.cpus);
  CHECK(got->memory_nodes == sent.memory_nodes);
  CHECK(got->argv == sent.argv);
  CHECK(got->environment == sent.environment);
  CHECK_FALSE(parse_fork_request(to_text({.agent = 1}))->foreground_group);

  const std::string text = to_text(sent);
  for (std::size_t cut = 0; cut < text.find("/bin/p") + 7; ++cut) CHECK_FALSE(parse_fork_request(text.substr(0, cut)));
  for (const Words& bad : {Words{"2", "1", "", "", "", "", "0"}, Words{"1", "x", "", "", "", "", "0"},
                           Words{"1", "1", "", "", "", "", "1"}, Words{"1", "1", "", "1,,2", "", "", "0"},
                           Words{"1", "1", "", "", "", "", "-1"}}) {
    std::string text;
    for (const std::string& word : bad) text += word + '\0';
    CAPTURE(text);
    CHECK_FALSE(parse_fork_request(text));
  }
}

TEST_CASE("a file of a process that is replaced, written to or removed is found", "[prefork]") {
  const TempFolder folder;
  const std::string one = folder.write("one", "1"), other = folder.write("other", "2");
  const std::string maps = "7f00-7f01 r--p 00000000 fe:00 12   " + one +
                           "\n7f01-7f02 rw-p 00000000 00:00 0   [heap]\n7f02-7f03 r-xp 0 00:01 9 /memfd:x (deleted)\n";
  CHECK(mapped_files(maps) == std::vector<std::string>{one});
  const LoadedFiles files(maps, {other, folder / "missing"});
  CHECK(files.count() == 2);
  CHECK(files.changed().empty());
  fs::rename(folder.write("new", "2"), other);
  CHECK(files.changed() == other);
  const LoadedFiles again(maps, {other});
  CHECK(again.changed().empty());
  std::ofstream(one, std::ios::app) << "more";
  CHECK(again.changed() == one);
  fs::remove(one);
  CHECK(again.changed() == one);
  const LoadedFiles own(file_content("/proc/self/maps"), {});
  CHECK(own.count() > 1);
  CHECK(own.changed().empty());
}

TEST_CASE("a thread, a GPU or a listening socket forbids to fork", "[prefork]") {
  CHECK(obstacle_among({"/dev/null", "pipe:[7]"}, {}).empty());
  CHECK(obstacle_among({"/dev/null", "/dev/nvidiactl"}, {}) == "uses a GPU (/dev/nvidiactl)");
  CHECK(obstacle_among({"socket:[17]"}, {"18"}).empty());
  CHECK(obstacle_among({"socket:[17]"}, {"17"}) == "listens on a socket");
  CHECK(
      listening_tcp("  sl  local_address rem_address   st\n   0: 0100007F:1F90 00000000:0000 0A 0:0 00:0 0 0 0 4711 1\n"
                    "   1: 0100007F:1F90 0100007F:1111 01 0:0 00:0 0 0 0 4712 1\n") == std::set<std::string>{"4711"});
  CHECK(listening_unix("Num RefCount Protocol Flags Type St Inode Path\n"
                       "0: 00000002 00000000 00010000 0001 01 99 /run/x\n0: 00000003 00000000 00000000 0001 03 98\n") ==
        std::set<std::string>{"99"});
}

TEST_CASE("what forbids to fork is seen in another process", "[prefork][not-tsan]") {  // that sanitizer has a thread
  const auto child = [](auto prepare) {
    int ready[2];
    REQUIRE(pipe(ready) == 0);
    const pid_t pid = ::fork();
    if (pid == 0) {
      prepare();
      [[maybe_unused]] const auto written = write(ready[1], "x", 1);
      for (;;) pause();
    }
    char byte = 0;
    REQUIRE(read(ready[0], &byte, 1) == 1);
    close(ready[0]), close(ready[1]);
    const std::string why = fork_obstacle(pid);
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    return why;
  };
  CHECK(child([] {}) == "");
  CHECK(child([] { std::thread([] { pause(); }).detach(); }).starts_with("has 2 threads ("));
  CHECK(child([] { listen(socket(AF_INET, SOCK_STREAM, 0), 1); }) == "listens on a socket");
  CHECK(child([] { listen(socket(AF_INET6, SOCK_STREAM, 0), 1); }) == "listens on a socket");
}

TEST_CASE("while the template does not answer the loop turns, and a worker that is not wanted any more ends by itself",
          "[prefork]") {
  prctl(PR_SET_CHILD_SUBREAPER, 1);  // as the agent is
  const std::string program = programs_folder() + "/prefork_worker";
  asio::io_context io;
  Words said;
  bool loaded = false, unwanted_came = false;
  std::optional<Spawned> came;
  const auto run_until = [&](auto condition) { return eventually([&] { return io.poll(), condition(); }, 60s); };
  WorkerTemplate it(
      io, {program, {program, "wait"}, {}}, [&](const std::string& line) { said.push_back(line); },
      [&] { loaded = true; }, {.fork_max = 60s, .forks_max = 60s});
  it.start();
  REQUIRE(run_until([&] { return loaded; }));
  it.begin_round();
  const Fd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  const SpawnRequest request{.program = program,
                             .argv = {program, "wait"},
                             .environment = {"RANK=0", "DDPRUN_ROUND=1"},
                             .stdin_fd = null.get(),
                             .stdout_fd = null.get(),
                             .stderr_fd = null.get()};
  kill(*it.child(), SIGSTOP);
  REQUIRE(it.fork(request, [&](auto, auto&) { unwanted_came = true; }));
  bool turned = false;
  asio::post(io, [&] { turned = true; });
  io.poll();
  CHECK(turned);
  it.forget();
  kill(*it.child(), SIGCONT);
  REQUIRE(it.fork(request, [&](std::optional<Spawned> forked, const WorkerTemplate::Go& go) {
    CHECK(go());
    came = std::move(forked);
  }));
  REQUIRE(run_until([&] { return came.has_value(); }));
  CHECK_FALSE(unwanted_came);
  CHECK(said.empty());
  CHECK(eventually([&] { return reap_orphans({*it.child(), came->pid}), children().size() == 2; }, 60s));
  const pid_t the_template = *it.child();
  it.stop();
  waitpid(the_template, nullptr, 0);
  kill(came->pid, SIGKILL);
  waitpid(came->pid, nullptr, 0);
  prctl(PR_SET_CHILD_SUBREAPER, 0);
}

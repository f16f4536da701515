#include "agent/process/process.h"

#include <poll.h>
#include <sched.h>
#include <sys/resource.h>

#include "agent/channel/channel_page.h"
#include "tests/support/test.h"

namespace {

std::optional<ExitStatus> wait_for_end(const Spawned& child) {
  pollfd end{child.fd.get(), POLLIN, 0};
  poll(&end, 1, 10'000);
  return reap(child.child(), child.pid);
}

struct Pipe {
  Pipe() {
    int ends[2];
    REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
    read_end = Fd(ends[0]);
    write_end = Fd(ends[1]);
  }
  // All that is written, once nobody else can write any more.
  std::string output() {
    write_end.reset();
    std::string out;
    char buffer[4096];
    for (ssize_t n; (n = read(read_end.get(), buffer, sizeof buffer)) > 0;)
      out.append(buffer, static_cast<std::size_t>(n));
    return out;
  }
  Fd read_end, write_end;
};

// What the command writes to its stdout.
std::string output_of(const std::string& command, SpawnRequest request = {}) {
  Pipe pipe;
  request.program = "/bin/sh";
  request.argv = {"sh", "-c", command};
  request.environment = {"PATH=/usr/bin:/bin"};
  request.stdout_fd = pipe.write_end.get();
  const Spawned child = spawn(request);
  REQUIRE(child.error == 0);
  const std::string out = pipe.output();
  wait_for_end(child);
  return out;
}

SpawnRequest passing(std::vector<PassedFd> descriptors) {
  SpawnRequest request;
  request.passed = std::move(descriptors);
  return request;
}

}  // namespace

TEST_CASE("a worker's exit code and signal come back", "[process]") {
  CHECK(wait_for_end(spawn({"/bin/sh", {"sh", "-c", "exit 7"}, {}})) == ExitStatus{.code = 7});
  CHECK(wait_for_end(spawn({"/bin/sh", {"sh", "-c", "kill -SEGV $$"}, {}})) == ExitStatus{.signal = SIGSEGV});
}

TEST_CASE("what cannot be exec'd is told by its errno and leaves no zombie", "[process]") {
  CHECK(spawn({"/no/such/program", {"x"}, {}}).error == ENOENT);
  CHECK(spawn({"/etc", {"x"}, {}}).error == EACCES);
  CHECK(waitpid(-1, nullptr, WNOHANG) == -1);
}

TEST_CASE("a running worker is not reaped", "[process]") {
  const Spawned child = spawn({"/bin/sleep", {"sleep", "60"}, {}});
  CHECK_FALSE(reap(child.child(), child.pid));
  kill(child.pid, SIGKILL);
  CHECK(wait_for_end(child) == ExitStatus{.signal = SIGKILL});
}

TEST_CASE("a worker leads its own session and group, and has the environment that others have, too", "[process]") {
  const std::vector<std::string> common{"A=of all"};
  SpawnRequest request;
  request.common_environment = &common;
  CHECK(output_of("echo $A $PATH", request) == "of all /usr/bin:/bin\n");
  CHECK(output_of("set -- $(cat /proc/$$/stat); echo $(($5 == $$)) $(($6 == $$))") == "1 1\n");
}

TEST_CASE("a low limit of open files leaves the worker channel a number, and nothing else of ours reaches it",
          "[process]") {
  const Fd leak(fcntl(1, F_DUPFD, 30));  // without close-on-exec
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  CHECK(channel_number() == kChannelFd);
  const Fd page(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const rlimit low{40, before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &low);
  const int number = channel_number();
  const std::string out = output_of("ls /proc/self/fd | tr '\\n' ' '", passing({{page.get(), number}}));
  setrlimit(RLIMIT_NOFILE, &before);
  CHECK(number == 39);
  CHECK(out == "0 1 2 3 39 ");  // 3: ls's own
}

TEST_CASE("a descriptor moves out of the way of another's number, however low the limit", "[process]") {
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const Fd page(open("/dev/null", O_RDONLY | O_CLOEXEC)), source(fcntl(page.get(), F_DUPFD_CLOEXEC, 39));
  REQUIRE(source.get() == 39);
  const rlimit low{40, before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &low);
  const std::string out = output_of("ls /proc/self/fd | tr '\\n' ' '", passing({{page.get(), 39}, {source.get(), 38}}));
  setrlimit(RLIMIT_NOFILE, &before);
  CHECK(out == "0 1 2 3 38 39 ");
}

TEST_CASE("signals that we ignore or block are the default again in a worker, but for SIGHUP under nohup",
          "[process]") {
  std::signal(SIGPIPE, SIG_IGN);
  CHECK(output_of("grep -E 'SigIgn|SigBlk' /proc/self/status | grep -vc 0000000000000000") == "0\n");
  std::signal(SIGHUP, SIG_IGN);  // as under nohup, where it stays ignored
  CHECK(output_of("grep SigIgn /proc/self/status | cut -f2") == "0000000000000001\n");
  std::signal(SIGPIPE, SIG_DFL);
  std::signal(SIGHUP, SIG_DFL);
}

TEST_CASE("the kernel picks a worker before the agent, and a core is dumped where it is wanted alone", "[process]") {
  CHECK(output_of("cat /proc/self/oom_score_adj; ulimit -Sc") == "300\n0\n");
  SpawnRequest request;
  request.core_dumps = true;
  CHECK(output_of("test $(ulimit -Sc) = $(ulimit -Hc) && echo same", std::move(request)) == "same\n");
}

TEST_CASE("descriptors are passed under their numbers, also where those are each other's", "[process]") {
  const Pipe one, two;
  const int first[] = {one.read_end.get(), one.write_end.get()}, second[] = {two.read_end.get(), two.write_end.get()};
  SpawnRequest request;
  request.passed = {{first[1], second[1]}, {second[1], first[1]}, {first[0], first[0]}, {second[0], 61}};
  auto fd = [](int number) { return "/proc/self/fd/" + std::to_string(number); };  // a plain shell knows 0 to 9 only
  CHECK(output_of("exec 9>" + fd(second[1]) + "; echo one >&9; exec 8>" + fd(first[1]) + "; echo two >&8; read x <" +
                      fd(first[0]) + "; exec 7<" + fd(61) + "; read y <&7; echo $x $y",
                  std::move(request)) == "one two\n");
}

TEST_CASE("a worker runs on the CPUs it is given and takes its memory there", "[process]") {
  cpu_set_t ours;
  REQUIRE(sched_getaffinity(0, sizeof ours, &ours) == 0);
  int last = 0;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &ours)) last = cpu;
  SpawnRequest request;
  request.cpus = {last};
  request.memory_nodes = {0};
  const std::string output =
      output_of("grep Cpus_allowed_list /proc/self/status | cut -f2; grep -om1 'prefer (many):0' /proc/self/numa_maps",
                std::move(request));
  CHECK(output == std::to_string(last) + "\nprefer (many):0\n");
}

TEST_CASE("a worker that cannot have its CPUs runs on ours, and it is said", "[process]") {
  SpawnRequest request{"/bin/true", {"true"}, {}};
  request.cpus = {4000};
  const Spawned child = spawn(request);
  CHECK(child.binding_error == EINVAL);
  CHECK(wait_for_end(child)->ok());
}

TEST_CASE("what is left of a worker's group goes with it", "[process]") {
  Pipe pipe;
  SpawnRequest request{"/bin/sh", {"sh", "-c", "sleep 60 & exit 0"}, {"PATH=/usr/bin:/bin"}};
  request.stdout_fd = pipe.write_end.get();
  const Spawned child = spawn(request);
  pipe.write_end.reset();
  CHECK(wait_for_end(child)->ok());
  pollfd all_writers_gone{pipe.read_end.get(), POLLIN, 0};
  CHECK(poll(&all_writers_gone, 1, 10'000) == 1);
}

TEST_CASE("streams may be given in any order of descriptors", "[process]") {
  Pipe pipe;
  SpawnRequest request{"/bin/sh", {"sh", "-c", "echo to-err >&2"}, {}};
  request.stdout_fd = 2;  // swapped with the next one
  request.stderr_fd = pipe.write_end.get();
  const Spawned child = spawn(request);
  CHECK(pipe.output() == "to-err\n");
  wait_for_end(child);
}

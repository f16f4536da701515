#include "launcher/running/running_jobs.h"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include <asio/read_until.hpp>
#include <asio/steady_timer.hpp>
#include <asio/write.hpp>

#include "tests/support/test.h"

namespace {

const std::string kTable =
    "Num       RefCount Protocol Flags    Type St Inode Path\n"
    "0000000000000000: 00000002 00000000 00010000 0001 01 41234 /run/dbus/system_bus_socket\n"
    "0000000000000000: 00000002 00000000 00010000 0001 01 41234 @ddprun/1000/4711/other\n"
    "0000000000000000: 00000002 00000000 00010000 0001 01 41235 @ddprun/1000/4711/mnist-7\n"
    "0000000000000000: 00000003 00000000 00000000 0001 03 41236 @ddprun/1000/4711/mnist-7\n"
    "0000000000000000: 00000002 00000000 00010000 0001 01 41237 @ddprun/1000/4800/mnist-7\n"
    "0000000000000000: 00000002 00000000 00010000 0001 01 41238 @ddprun/0/4900/a job of root's\n"
    "0000000000000000: 00000002 00000000 00010000 0001 01 41239 @ddprun/nonsense\n";

using Local = asio::local::stream_protocol;
Local::endpoint place_of(const agent::AgentAddress& agent) { return {std::string(1, '\0') + socket_name(agent)}; }

using Agents = std::vector<RunningAgent>;

RunningAgent job_agent(const std::string& id, uid_t user, pid_t process) {
  return {{user, process, id}, user, process};
}

auto is_called(std::string id) {
  return [id = std::move(id)](const RunningAgent& one) { return one.address.run_id == id; };
}

// Somebody listens there and accepts nobody.
struct TakenName {
  TakenName(asio::io_context& io, agent::AgentAddress name, int backlog = 8)
      : address(std::move(name)), acceptor(io, Local()) {
    acceptor.bind(place_of(address));
    acceptor.listen(backlog);
  }
  agent::AgentAddress address;
  Local::acceptor acceptor;
};

Local::socket caller_of(asio::io_context& io, const agent::AgentAddress& agent) {
  Local::socket out(io);
  out.connect(place_of(agent));
  return out;
}

}  // namespace

TEST_CASE("agents that can be asked for stacks are in the kernel's table of sockets", "[stacks]") {
  const auto agents = agent::listening_agents(kTable);
  REQUIRE(agents.size() == 4);
  CHECK(socket_name(agents[0]) == "ddprun/1000/4711/other");  // somebody's, before the one that it is to hide
  CHECK(socket_name(agents[1]) == "ddprun/1000/4711/mnist-7");
  CHECK(socket_name(agents[2]) == "ddprun/1000/4800/mnist-7");
  CHECK(socket_name(agents[3]) == "ddprun/0/4900/a job of root's");
  CHECK(agent::socket_name({0, 1, std::string(200, 'x')}).size() < 107);
}

TEST_CASE("a job is named by its id, the beginning of it, or a process", "[stacks]") {
  const Agents agents{job_agent("mnist-7", 1000, 4711), job_agent("mnist-7", 1000, 4800),
                      job_agent("a job", 1000, 4900)};
  const auto chosen = [&](const std::string& job) { return choose_job(agents, job, Purpose::act, 1000); };
  CHECK(chosen("mnist").agent == &agents[0]);
  CHECK(chosen("4900").agent == &agents[2]);
  CHECK(choose_job({agents[0], agents[1]}, "", Purpose::act, 1000).agent);  // two nodes of one job
  CHECK(chosen("").complaint == "several jobs run here; name one of them: a job and mnist-7.");
  CHECK(chosen("cifar").complaint == "no job here is cifar; there are: a job and mnist-7.");
  CHECK(choose_job({}, "").complaint == "no job of yours runs on this machine.");
  CHECK(choose_job({job_agent("a\nddprun: \x1b[2J", 1000, 1)}, "b").complaint ==
        "no job here is b; there are: a\\x0addprun: \\x1b[2J (of user 1000).");
}

TEST_CASE("root's own job goes before those of others, and on theirs it acts by name", "[stacks]") {
  const Agents agents{job_agent("mnist", 1000, 4711), job_agent("mnist", 1001, 4712), job_agent("own", 0, 4713)};
  const Agents others{agents[0], agents[1]};
  const auto chosen = [](const Agents& from, const std::string& job, Purpose purpose) {
    return choose_job(from, job, purpose, 0);
  };
  for (const Purpose purpose : {Purpose::look, Purpose::act}) {
    CHECK(chosen(agents, "", purpose).agent == &agents[2]);
    CHECK(chosen(agents, "4712", purpose).agent == &agents[1]);
    CHECK(chosen(agents, "mnist", purpose).complaint ==
          "several jobs run here; name one of them: mnist (of user 1000) and mnist (of user 1001).");
  }
  CHECK(chosen({agents[0]}, "", Purpose::look).agent);
  CHECK(chosen({agents[0]}, "", Purpose::act).complaint ==
        "no job of yours runs on this machine; there are: mnist (of user 1000).");
  CHECK(chosen({agents[0]}, "mnist", Purpose::act).agent);
}

TEST_CASE("who accepts nobody hides no job from a look, and counts where one acts", "[stacks]") {
  Agents agents{job_agent("stuck", 0, 4711), job_agent("mnist", 0, 4712)};
  agents[0].accepts = false;
  CHECK(choose_job(agents, "", Purpose::look, 0).agent == &agents[1]);
  CHECK(choose_job(agents, "stuck", Purpose::look, 0).agent == &agents[0]);
  CHECK(choose_job(agents, "", Purpose::act, 0).complaint ==
        "several jobs run here; name one of them: mnist and stuck.");
  CHECK(choose_job({agents[0]}, "", Purpose::act, 0).agent);
}

// Root takes names that an ordinary user's agents could have, and only root can start a process of another user.
TEST_CASE("names that other users have taken are neither jobs nor in their way", "[stacks]") {
  if (geteuid() != 0) {
    WARN("skipped: only root can start a process of another user");
    return;
  }
  constexpr uid_t kUser = 65'534;
  const pid_t child = fork();
  if (child == 0) _exit(setresgid(kUser, kUser, kUser) || setresuid(kUser, kUser, kUser) || pause());
  asio::io_context io;
  const TakenName silent(io, {kUser, child, "silent"}), full(io, {kUser, 1, "full"}, /*backlog=*/0),
      phantom(io, {kUser, child, "phantom"}, /*backlog=*/0);  // of a process of that user
  const Local::socket wait[] = {caller_of(io, full.address), caller_of(io, phantom.address)};
  const pid_t asker = fork();
  if (asker == 0) {
    if (setresgid(kUser, kUser, kUser) || setresuid(kUser, kUser, kUser)) _exit(1);
    asio::io_context own_io;
    const agent::AgentSocket socket(own_io, {kUser, getpid(), "own"}, [](const auto&, const auto&) {});
    const Agents found = own_agents();
    const RunningAgent* chosen = choose_job(found, "own").agent;
    const bool fits =
        chosen && chosen->process == getpid() && chosen->accepts &&
        std::none_of(found.begin(), found.end(), [](const RunningAgent& one) {
          return is_called("silent")(one) || is_called("full")(one) || (is_called("phantom")(one) && one.accepts);
        });
    _exit(fits ? 0 : 2);
  }
  int status = 0;
  waitpid(asker, &status, 0);
  CHECK(status == 0);
  const Agents seen = own_agents();  // by root, who owns them
  const auto one = std::find_if(seen.begin(), seen.end(), is_called("silent"));
  REQUIRE(one != seen.end());
  CHECK(one->user == 0);
  CHECK(one->process == getpid());
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

TEST_CASE("an own agent whose queue is full is found, and asked in vain, with a sentence", "[stacks][waits]") {
  asio::io_context io;
  const TakenName full(io, {geteuid(), getpid(), "full-queue"}, /*backlog=*/0);
  const Local::socket waits = caller_of(io, full.address);
  const Agents seen = own_agents();
  const auto one = std::find_if(seen.begin(), seen.end(), is_called("full-queue"));
  REQUIRE(one != seen.end());
  CHECK_FALSE(one->accepts);
  CHECK_THROWS_WITH(ask(*one, agent::kAskStatus, 1), EndsWith("it has not answered within 1 s."));
}

TEST_CASE("an agent whose name is taken is found by another one", "[stacks]") {
  asio::io_context io;
  const agent::AgentAddress wanted{geteuid(), getpid(), "name-taken"};
  const TakenName taken(io, wanted);
  const agent::AgentSocket socket(io, wanted, [](const auto&, const auto&) {});
  const Agents seen = own_agents();
  CHECK(std::count_if(seen.begin(), seen.end(), is_called("name-taken")) == 2);
}

// Its name has the process id that it has inside.
TEST_CASE("the agent of a container is known by the process that it is outside", "[stacks]") {
  if (geteuid() != 0) {
    WARN("skipped: only root can make a pid namespace");
    return;
  }
  int ready[2];
  REQUIRE(pipe(ready) == 0);
  const pid_t middle = fork();
  if (middle == 0) {
    const pid_t inside = unshare(CLONE_NEWPID) == 0 ? fork() : -1;
    if (inside == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      asio::io_context io;
      const agent::AgentSocket socket(io, {geteuid(), getpid(), "contained"}, [](const auto&, const auto&) {});
      pause();
    }
    _exit(write(ready[1], &inside, sizeof inside) != sizeof inside || waitpid(inside, nullptr, 0) < 0);
  }
  pid_t outside = 0;
  REQUIRE(read(ready[0], &outside, sizeof outside) == sizeof outside);
  for (const int fd : ready) close(fd);
  std::optional<RunningAgent> found;
  if (outside > 0)
    CHECK(eventually(
        [&] {
          for (const RunningAgent& one : own_agents())
            if (is_called("contained")(one)) found = one;
          return found.has_value();
        },
        20s));
  if (found) {
    CHECK(found->address.agent == 1);
    CHECK(found->process == outside);
    CHECK(started_ms(*found) > 0);
    CHECK(choose_job({*found}, std::to_string(outside)).agent);
  } else {
    WARN("skipped: no pid namespace can be made here");
  }
  kill(outside > 0 ? outside : middle, SIGKILL);
  waitpid(middle, nullptr, 0);
}

TEST_CASE("an agent that is busy for a second is heard", "[stacks][waits]") {
  asio::io_context io;
  const RunningAgent busy = job_agent("busy", geteuid(), getpid());
  asio::steady_timer second(io);
  const agent::AgentSocket socket(io, busy.address, [&](const auto&, const auto& reply) {
    second.expires_after(1s);
    second.async_wait([reply](const auto&) { reply("answer"); });
  });
  std::thread loop([&] { io.run(); });
  CHECK(ask(busy, agent::kAskStatus, 20) == "answer");
  io.stop();
  loop.join();
}

// UBSan looks at memory by a pipe.
TEST_CASE("who asks an agent without free descriptors is answered when it has one", "[stacks][release-only]") {
  asio::io_context io;
  const agent::AgentAddress own{geteuid(), getpid(), "few-files"};
  agent::AgentSocket socket(io, own, [](const auto& request, const auto& reply) { reply(request.line); });
  Local::socket asks(io);
  asks.connect(place_of(own));
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit none{0, before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &none);
  io.run_for(20ms);
  setrlimit(RLIMIT_NOFILE, &before);
  std::string answer;
  asio::write(asks, asio::buffer("status\n", 7));
  asio::async_read_until(asks, asio::dynamic_buffer(answer), "status", [&](const auto&, auto) { io.stop(); });
  io.run_for(20s);
  CHECK(answer == "status");
}

TEST_CASE("an agent that does not answer, or accepts nobody, is given up in time", "[stacks][waits]") {
  asio::io_context io;
  const RunningAgent stuck = job_agent("stuck", geteuid(), getpid());
  const TakenName name(io, stuck.address, 0);
  for (int i = 0; i < 2; ++i)
    CHECK_THROWS_WITH(ask(stuck, agent::kAskStatus, 1), EndsWith("it has not answered within 1 s."));
}

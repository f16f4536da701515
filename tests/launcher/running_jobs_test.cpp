#include "launcher/running_jobs.h"

#include <sys/resource.h>

#include <asio/read_until.hpp>
#include <asio/write.hpp>

#include "tests/support/test.h"

namespace {

const std::string kTable =
    "Num       RefCount Protocol Flags    Type St Inode Path\n"
    "0000000000000000: 00000002 00000000 00010000 0001 01 41234 /run/dbus/system_bus_socket\n"
    "0000000000000000: 00000002 00000000 00010000 0001 01 41235 @ddprun/1000/4711/mnist-7\n"
    "0000000000000000: 00000003 00000000 00000000 0001 03 41236 @ddprun/1000/4711/mnist-7\n"
    "0000000000000000: 00000002 00000000 00010000 0001 01 41237 @ddprun/1000/4800/mnist-7\n"
    "0000000000000000: 00000002 00000000 00010000 0001 01 41238 @ddprun/0/4900/a job of root's\n"
    "0000000000000000: 00000002 00000000 00010000 0001 01 41239 @ddprun/nonsense\n";

using Local = asio::local::stream_protocol;
Local::endpoint place_of(const agent::AgentAddress& agent) { return {std::string(1, '\0') + socket_name(agent)}; }

}  // namespace

TEST_CASE("agents that can be asked for stacks are in the kernel's table of sockets", "[stacks]") {
  const auto agents = agent::listening_agents(kTable);
  REQUIRE(agents.size() == 3);
  CHECK(socket_name(agents[0]) == "ddprun/1000/4711/mnist-7");
  CHECK(socket_name(agents[1]) == "ddprun/1000/4800/mnist-7");
  CHECK(socket_name(agents[2]) == "ddprun/0/4900/a job of root's");
  CHECK(agent::socket_name({0, 1, std::string(200, 'x')}).size() < 107);
}

TEST_CASE("a job is named by its id, the beginning of it, or a process", "[stacks]") {
  const auto agents = agent::listening_agents(kTable);
  CHECK(choose_job(agents, "mnist").agent->run_id == "mnist-7");
  CHECK(choose_job(agents, "4900").agent == &agents[2]);
  CHECK(choose_job({agents[0], agents[1]}, "").agent);  // two nodes of one job
  CHECK(choose_job(agents, "").complaint == "several jobs run here; name one of them: a job of root's, mnist-7.");
  CHECK(choose_job(agents, "cifar").complaint == "no job here is cifar; there are: a job of root's, mnist-7.");
  CHECK(choose_job({}, "").complaint == "no job of yours runs on this machine.");
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
  const agent::AgentAddress stuck{geteuid(), getpid(), "stuck"};
  Local::acceptor acceptor(io, Local());
  acceptor.bind(place_of(stuck));
  acceptor.listen(0);
  for (int i = 0; i < 2; ++i)
    CHECK_THROWS_WITH(ask(stuck, agent::kAskStatus, 1), EndsWith("it has not answered within 1 s."));
}

// How real processes find each other, and what they say where they do not.
#include "ddprun/process_group.h"

#include <torch/torch.h>

#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "ddprun/collectives.h"
#include "rendezvous/peer/listen_socket.h"
#include "rendezvous/store/server.h"
#include "tests/support/hosts.h"
#include "tests/support/test.h"
#include "tests/trainer/ranks.h"

namespace {

constexpr auto kLimit = 60s;

Words worker(const std::string& method, std::chrono::milliseconds timeout = 60s, int times = 1) {
  return {programs_folder() + "/group_worker", method, std::to_string(timeout.count()), std::to_string(times)};
}

// Ranks by options, without a launcher's environment.
std::vector<Ended> by_hand(const std::vector<int>& ranks, int world_size, const Words& argv) {
  return Ranks::by_hand(ranks, with(argv, {"{rank}", std::to_string(world_size)})).wait_all();
}

std::string address_at(int port) { return "tcp://127.0.0.1:" + std::to_string(port); }

// Each has joined so many times.
void check_good(const std::vector<Ended>& ends, int times = 1) {
  const int world = static_cast<int>(ends.size());
  for (int rank = 0; rank < world; ++rank) {
    const Ended& end = ends[static_cast<std::size_t>(rank)];
    CHECK(end == exited(0));
    const std::string its_rank = "rank " + std::to_string(rank) + " of " + std::to_string(world);
    std::string expected;
    for (int time = 0; time < times; ++time)
      expected += its_rank + ", local " + its_rank + ", " + std::to_string(world) + " here, sum " +
                  std::to_string(world * (world + 1) / 2) + "\n";
    CHECK(end.out == expected);
  }
}

}  // namespace

TEST_CASE("ranks find each other by a launcher's environment", "[process_group]") {
  check_good(Ranks(3, worker("env://")).wait_all());
}

TEST_CASE("without RANK and WORLD_SIZE a process is a world of its own", "[process_group]") {
  auto options = CommandOptions{.env = {{"RANK", std::nullopt}, {"WORLD_SIZE", std::nullopt}}};
  check_good({test::run(worker("env://"), kLimit, options)});
}

// Debian's installer writes such a line, which makes the store's address, seen from its own machine, the loopback's.
// Of two ranks gloo lets the one with the lower address listen: here the one whose address that would be.
TEST_CASE("a rank whose machine takes its own name for the loopback is reached by the others", "[process_group]") {
  if (!hosts_or_skip()) return;
  const Hosts hosts(2);
  const TempFolder folder;
  const auto rank = [&](int own, const std::string& address) {
    const std::string number = std::to_string(own);
    const auto names = folder.write("hosts" + number, "127.0.0.1 localhost\n" + address + " meeting\n").string();
    return hosts.on(own, {"unshare", "--mount", "sh", "-c",
                          "mount --bind " + names + " /etc/hosts && ip addr add 192.168.99.1" + number +
                              "/24 dev eth0 && OMP_NUM_THREADS=1 exec " + programs_folder() +
                              "/group_worker tcp://meeting:29500 10000 1 " + number + " 2"});
  };
  Command first(rank(0, "127.0.1.1")), second(rank(1, "192.168.99.10"));
  for (Command* command : {&first, &second}) {
    const Ended end = command->wait_exit(kLimit);
    CHECK(end == exited(0));
    CHECK_THAT(end.out, Contains("1 here, sum 3"));
  }
}

// The store's address is a number: the name is asked for only by who looks for the way to rank 0's machine.
TEST_CASE("a name server that never answers does not keep ranks from each other for long", "[process_group]") {
  if (!hosts_or_skip()) return;
  const Hosts hosts(3);
  const TempFolder folder;
  const std::string resolv_conf = folder.write("resolv.conf", "nameserver " + Hosts::address(2) + "\n");
  const std::string switch_conf = folder.write("nsswitch.conf", "hosts: files dns\n");
  Command server(hosts.on(2, {"python3", source_folder() + "/tests/e2e/name_server.py", Hosts::address(0), "never"}));
  server.wait_for_output("serves", kLimit);
  const int nodes = GENERATE(1, 2);
  std::vector<std::unique_ptr<Command>> commands;
  for (int node = 0; node < nodes; ++node)
    commands.push_back(std::make_unique<Command>(
        hosts.on(node, {"unshare", "--mount", "sh", "-c",
                        "mount --bind \"$0\" /etc/resolv.conf && mount --bind \"$1\" /etc/nsswitch.conf && export "
                        "RES_OPTIONS='timeout:30 attempts:5' OMP_NUM_THREADS=1 && exec " +
                            programs_folder() + "/ddprun --nnodes=" + std::to_string(nodes) +
                            " --nproc-per-node=" + std::to_string(2 / nodes) + " --node-rank=" + std::to_string(node) +
                            " --master-addr=" + Hosts::address(0) + " env DDPRUN_MASTER_ADDR=head.cluster " +
                            programs_folder() + "/group_worker env:// 30000 1",
                        resolv_conf, switch_conf})));
  for (const auto& command : commands) {
    const Ended end = command->wait_exit(kLimit);
    CHECK(end == exited(0));
    CHECK_THAT(end.out, Contains("sum 3"));
  }
}

TEST_CASE("ranks find each other at an address and in a file, which the last of them removes, and again",
          "[process_group]") {
  const TempFolder folder;
  for (const std::string& method : {address_at(free_port()), "file://" + std::string(folder / "meet")}) {
    check_good(by_hand({0, 1, 2}, 3, worker(method, 60s, 3)), 3);
    CHECK(fs::is_empty(folder.path()));
  }
}

TEST_CASE("under ddprun the launcher's store serves every round, and every group of it", "[process_group]") {
  const TempFolder folder;
  const auto once = folder.write("once",
                                 "#!/bin/sh\n"
                                 "\"$@\" || exit 1\n"
                                 "[ \"$RANK\" = 1 ] && [ \"$TORCHELASTIC_RESTART_COUNT\" = 0 ] && exit 3\n"
                                 "exit 0\n",
                                 true);
  const auto end =
      test::run(under_ddprun({"--nproc-per-node=2", "--max-restarts=1", "--no-python", once}, worker("env://", 60s, 2)),
                kLimit, kOneThread);
  CHECK(end == exited(0));
  CHECK_THAT(end.out, Contains("rank 0 of 2, local rank 0 of 2, 2 here, sum 3"));
}

TEST_CASE("who has not joined in time is named, by every rank that waits", "[process_group]") {
  const TempFolder folder;
  for (const std::string& method : {address_at(free_port()), "file://" + std::string(folder / "meet")}) {
    const auto ends = by_hand({0, 1, 4}, 5, worker(method, 2s));
    for (const auto& end : ends) CHECK(end == exited(1));
    CHECK_THAT(ends[0].err,
               Contains("rank 0 of 5 gave up waiting at " + method + ": ranks 2 and 3 of 5 have not joined") &&
                   Contains("Start them, see why they ended, or give them longer"));
    if (method.starts_with("file")) CHECK_THAT(ends[2].err, Contains("ranks 2 and 3 of 5 have not joined"));
  }
}

TEST_CASE("a store that nobody serves is named, with who should", "[process_group]") {
  const auto end = by_hand({1}, 2, worker(address_at(free_port()), 1s))[0];
  CHECK(end == exited(1));
  CHECK_THAT(end.err,
             Contains("rank 1 of 2 cannot reach the store at tcp://127.0.0.1:") &&
                 Contains("Rank 0 or the launcher serves it: check that it runs, and that this is its address."));
}

TEST_CASE("a port that is taken is named", "[process_group]") {
  const Listening taken = open_listener("127.0.0.1", 0);
  const auto end = by_hand({0}, 2, worker(address_at(taken.port), 1s))[0];
  close(taken.fd);
  CHECK(end == exited(1));
  CHECK_THAT(end.err, Contains("rank 0 of 2 cannot open the store at " + address_at(taken.port)));
}

TEST_CASE("two processes of one rank are told apart from a rank that is missing", "[process_group]") {
  const Server server({.address = "127.0.0.1"});
  const Environment env{
      {"MASTER_PORT", std::to_string(server.port())}, {"TORCHELASTIC_USE_AGENT_STORE", "True"}, {"WORLD_SIZE", "2"}};
  Ranks first(1, worker("env://", 3s), env), second(1, worker("env://", 3s), env);
  const auto ends = {first[0].wait_exit(kLimit), second[0].wait_exit(kLimit)};
  std::string both;
  for (const auto& end : ends) {
    CHECK(end == exited(1));
    both += end.err;
  }
  CHECK_THAT(both, Contains("another process has joined as this rank. Each process needs a RANK of its own, and"));
  CHECK_THAT(both, Contains("rank 1 of 2 has not joined within"));
}

TEST_CASE("a file that was left by an earlier run is named", "[process_group]") {
  const TempFolder folder;
  const std::string method = "file://" + std::string(folder / "meet");
  CHECK(by_hand({0}, 2, worker(method, 200ms))[0] == exited(1));  // alone, in vain: a file is left
  const auto end = by_hand({0}, 2, worker(method, 1s))[0];
  CHECK_THAT(end.err, Contains("the file must not be left from an earlier run"));
}

TEST_CASE("options that cannot be are sentences", "[process_group]") {
  CHECK_THROWS_WITH(init_process_group({.backend = Backend::mpi}),
                    "cannot make a process group: LibTorch is built without the backend mpi. Use gloo for CPU tensors, "
                    "nccl for GPU tensors, or auto.");
  CHECK_THROWS_WITH(init_process_group({.init_method = "tcp://nowhere"}), Contains("must be tcp://host:port"));
  CHECK_THROWS_WITH(
      init_process_group({.init_method = "tcp://127.0.0.1:1"}),
      Contains("each process needs its rank and the world size, in the options or in RANK and WORLD_SIZE."));
  CHECK_THROWS_WITH(init_process_group({.init_method = "file:///x", .rank = 2, .world_size = 2}),
                    Contains("RANK is 2 but WORLD_SIZE is 2"));
  CHECK_THROWS_WITH(init_process_group({.init_method = "file:///nowhere/x", .rank = 0, .world_size = 2}),
                    Contains("rank 0 of 2 cannot use /nowhere/x as a store"));
  CHECK_THROWS_WITH(init_process_group({.timeout = 5ms}), Contains("a timeout of 5 ms is too short"));
  const auto store = c10::make_intrusive<c10d::HashStore>();
  const auto alone = make_process_group({.rank = 0, .world_size = 1, .store = store});
  CHECK_THROWS_WITH(make_process_group({.rank = 0, .world_size = 1, .store = store}),
                    Contains("another process has joined as this rank") && Contains("a PrefixStore, of its own"));
  CHECK_FALSE(is_initialized());
}

TEST_CASE("nccl where there is no GPU is refused with the ranks that lack one", "[process_group]") {
  setenv("CUDA_VISIBLE_DEVICES", "", 1);
  CHECK_THROWS_WITH(init_process_group({.backend = Backend::nccl, .rank = 0, .world_size = 1}),
                    Contains("the backend nccl needs a GPU of its own for each rank, and rank 0 has none"));
}

TEST_CASE("there is one default group at a time", "[process_group]") {
  init_process_group({.backend = Backend::gloo, .rank = 0, .world_size = 1});
  CHECK(is_initialized());
  CHECK_THROWS_WITH(init_process_group(), Contains("there is one already. Destroy it first."));
  const ProcessGroup group = default_group();
  CHECK(group.device() == at::kCPU);
  CHECK(group.backend() == Backend::gloo);
  CHECK(group.timeout() == 30min);
  group.store()->set("k", "v");
  CHECK(default_group().store()->get_to_str("k") == "v");
  destroy_process_group();
  CHECK_FALSE(is_initialized());
  CHECK_THROWS_WITH(group.rank(), Contains("this one was destroyed"));
  CHECK_THROWS_WITH(default_group(), Contains("Call init_process_group() first."));
}

TEST_CASE("a process with peers ignores SIGPIPE unless it handles it, and a rank alone ends with its reader",
          "[process_group]") {
  using Handler = void (*)(int);
  const auto after_group_of = [](int world_size, Handler before) {
    std::signal(SIGPIPE, before);
    const auto store = c10::make_intrusive<c10d::HashStore>();
    std::vector<std::thread> peers;
    for (int rank = 1; rank < world_size; ++rank)
      peers.emplace_back([=] {
        make_process_group({.backend = Backend::gloo, .rank = rank, .world_size = world_size, .store = store});
      });
    make_process_group({.backend = Backend::gloo, .rank = 0, .world_size = world_size, .store = store});
    for (std::thread& peer : peers) peer.join();
    return std::signal(SIGPIPE, SIG_DFL);
  };
  const Handler handler = [](int) {};
  CHECK(after_group_of(2, SIG_DFL) == SIG_IGN);
  CHECK(after_group_of(2, handler) == handler);
  CHECK(after_group_of(1, SIG_DFL) == SIG_DFL);
}

TEST_CASE("local ranks are told apart also where LOCAL_RANK is 0 everywhere", "[process_group]") {
  const Ended end =
      run(under_ddprun({"--nproc-per-node=2", "--virtual-local-rank"}, worker("env://")), kLimit, kOneThread);
  CHECK(end == exited(0));
  for (const char* const rank : {"0", "1"})
    CHECK_THAT(end.out, Contains("rank " + std::string(rank) + " of 2, local rank " + rank + " of 2"));
}

// Jobs of several nodes, as agents on one machine: each has a keeper, an agent and workers of its own, and they meet
// over loopback.
#include <netinet/in.h>
#include <sys/socket.h>

#include "rendezvous/base/error.h"
#include "rendezvous/base/fd.h"
#include "rendezvous/peer/listen_socket.h"
#include "tests/e2e/orphan_job.h"
#include "tests/e2e/programs.h"
#include "tests/support/free_port.h"
#include "tests/support/test.h"

namespace {

// Prints its rank, and when it is told to stop; exits once the file exists.
const std::string kWorker =
    "trap 'echo told; exit 0' TERM; echo \"up $DDPRUN_ROUND/$RANK/$WORLD_SIZE/$TORCHELASTIC_RESTART_COUNT\"; "
    "while [ ! -e go ]; do sleep 0.02; done";

bool can_be_listened_on(int port) try {
  close(open_listener("127.0.0.1", static_cast<std::uint16_t>(port)).fd);
  return true;
} catch (const Error&) {
  return false;
}

// All addresses here belong to one machine, so the options say which node has the coordinator.
const std::vector<std::string> kHost{"--rdzv-conf=is_host=true"}, kGuest{"--rdzv-conf=is_host=false"};

struct Nodes {
  explicit Nodes(std::vector<std::string> options) : options(std::move(options)) {}

  // Adds a node; its own options come after the job's.
  Command& add(const std::vector<std::string>& own = {}, const std::string& script = kWorker, bool terminal = false) {
    agents.push_back(std::make_unique<Command>(shell_job(joined({options, own}), script),
                                               CommandOptions{.cwd = folder.path(), .terminal = terminal}));
    return *agents.back();
  }
  // Adds so many by their node ranks, or the first one as the coordinator's; all are in the first round.
  void start_static(std::size_t count) {
    for (std::size_t rank = 0; rank < count; ++rank) add({"--node-rank=" + std::to_string(rank)});
    for (auto& agent : agents) agent->wait_for_output("up 1/", kLimit);
  }
  void start_elastic(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) add(i == 0 ? kHost : kGuest);
    for (auto& agent : agents) agent->wait_for_output("up 1/\\d/" + std::to_string(count) + "/0", kLimit);
  }
  Command& operator[](std::size_t node) { return *agents.at(node); }

  void wait_for_round(const std::string& round_rank_world, std::size_t node) {
    agents.at(node)->wait_for_output("up " + round_rank_world, kLimit);
  }
  void wait_for(const std::string& round_rank_world, const std::vector<std::size_t>& which) {
    for (const std::size_t node : which) wait_for_round(round_rank_world, node);
  }
  void let_workers_end() const { folder.write("go", ""); }
  void end_well(const std::vector<std::size_t>& which) {
    let_workers_end();
    for (const std::size_t node : which) CHECK(agents.at(node)->wait_exit(kLimit).code == 0);
  }
  void all_end_well() {
    let_workers_end();
    for (auto& agent : agents) CHECK(agent->wait_exit(kLimit).code == 0);
  }

  std::vector<std::string> options;
  TempFolder folder;
  std::vector<std::unique_ptr<Command>> agents;
};

std::vector<std::string> fixed(int nodes, int port) {
  return {"--nnodes=" + std::to_string(nodes), "--master-addr=127.0.0.1", "--master-port=" + std::to_string(port)};
}

std::vector<std::string> elastic(const std::string& nodes) {
  return {"--nnodes=" + nodes, "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:" + std::to_string(free_port()),
          "--rdzv-id=job"};
}

}  // namespace

TEST_CASE("static nodes, started in any order, form one world by their node ranks", "[nodes][fast]") {
  Nodes nodes(fixed(3, free_port()));
  nodes.add({"--node-rank=2", "--nproc-per-node=1"});
  nodes.add({"--node-rank=0", "--nproc-per-node=2"});
  nodes.add({"--node-rank=1", "--nproc-per-node=3"});
  nodes.wait_for_round("1/5/6/", 0);
  for (const char* rank : {"0", "1"}) nodes.wait_for_round(std::string("1/") + rank + "/6/", 1);
  for (const char* rank : {"2", "3", "4"}) nodes.wait_for_round(std::string("1/") + rank + "/6/", 2);
  nodes.all_end_well();
  for (auto& agent : nodes.agents) CHECK(agent->err().find("ddprun: the job") == std::string::npos);
}

TEST_CASE("workers of all nodes are told of one store, and of their own place", "[nodes]") {
  Nodes nodes(fixed(2, free_port()));
  const std::string script =
      "echo \"$MASTER_ADDR:$MASTER_PORT $GROUP_RANK/$GROUP_WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE "
      "$ROLE_NAME $ROLE_RANK/$ROLE_WORLD_SIZE\"";
  nodes.add({"--node-rank=0", "--role=actor", "--nproc-per-node=2"}, script);
  nodes.add({"--node-rank=1", "--role=learner"}, script);
  const Ended first = nodes[0].wait_exit(kLimit), second = nodes[1].wait_exit(kLimit);
  const std::string place = second.out.substr(0, second.out.find(' '));
  CHECK(has(place, "127.0.0.1:"));
  CHECK(has(second.out, " 1/2 0/1 learner 0/1\n"));
  CHECK(has(first.out, place + " 0/2 0/2 actor 0/2\n"));
  CHECK(has(first.out, place + " 0/2 1/2 actor 1/2\n"));
}

TEST_CASE("a worker's failure on one node restarts all, and the final one is told alike everywhere", "[nodes][fast]") {
  Nodes nodes(fixed(2, free_port()));
  nodes.options.push_back("--max-restarts=1");
  const std::string up = "echo \"up $DDPRUN_ROUND/$RANK/$WORLD_SIZE/$TORCHELASTIC_RESTART_COUNT\"; ";
  nodes.add({"--node-rank=0"}, up + "touch up-$DDPRUN_ROUND; exec sleep 600");
  nodes.add({"--node-rank=1"}, up + "until [ -e up-$DDPRUN_ROUND ]; do sleep 0.02; done; "
                                    "echo no luck in round $DDPRUN_ROUND >&2; exit $((3 + DDPRUN_ROUND))");
  const Ended first = nodes[0].wait_exit(kLimit), second = nodes[1].wait_exit(kLimit);
  CHECK(first.code == 1);
  CHECK(second.code == 1);
  CHECK(has(first.out, "up 2/0/2/1"));
  CHECK(has(second.out, "up 2/1/2/1"));
  CHECK(has(first.err, "exited with code 4; restart 1 of 1.\n"));
  for (const Ended& ended : {first, second}) {
    CHECK(has(ended.err, "ddprun: the job failed: rank 1 (local rank 0) exited with code 5."));
    CHECK(has(ended.err, "all restarts are used up (1 of 1)"));
    CHECK(has(ended.err, "no luck in round 2"));
  }
}

TEST_CASE("the other nodes know why the job failed before the failed one's other workers have left", "[nodes]") {
  Nodes nodes(fixed(2, free_port()));
  nodes.options.insert(nodes.options.end(), {"--max-restarts=0", "--stop-grace=600"});
  nodes.add({"--node-rank=0"});
  nodes.add({"--node-rank=1", "--nproc-per-node=2"},
            "if [ $LOCAL_RANK = 1 ]; then trap '' TERM; echo deaf; while :; do sleep 0.02; done; fi; "
            "while ! ls deaf-too; do sleep 0.02; done 2> /dev/null; echo my last words >&2; exit 9");
  nodes[1].wait_for_output("deaf", kLimit);
  nodes.folder.write("deaf-too", "");
  nodes[0].wait_for_output("my last words", kLimit);
  nodes[1].kill(SIGINT);
  nodes[1].wait_for_output("SIGINT: stopping", kLimit);
  nodes[1].kill(SIGINT);  // now
  for (auto& agent : nodes.agents) CHECK(agent->wait_exit(kLimit).code == 1);
}

TEST_CASE("a node that is killed is missed at once: the survivors regroup, with new ranks", "[nodes][fast]") {
  const std::size_t victim = GENERATE(1u, 2u);
  Nodes nodes(elastic("2:3"));
  if (victim == 2) nodes.options.push_back("--token-file=" + token_file(nodes.folder));
  nodes.start_elastic(3);
  nodes[victim].kill(SIGKILL);  // its keeper; the agent ends with it
  nodes.wait_for("2/[01]/2/0", {0, 3 - victim});
  CHECK(has(nodes[0].err(), "was lost: the other side closed the connection: a new round begins."));
  nodes.end_well({0, 3 - victim});
  CHECK(nodes[victim].all_gone(gone_within()));
}

// The leftovers belong to another user and cannot be killed: the sweep takes its full ten seconds, the lease is five.
TEST_CASE("a node goes on saying that it lives while it ends what its workers left behind", "[nodes]") {
  if (skipped_if(geteuid() != 0, "it needs to be root")) return;
  Nodes nodes(elastic("1:2"));
  const TempFolder folder;
  fs::copy_file("/usr/bin/setpriv", folder / "become");
  fs::permissions(folder.path(), fs::perms(0755));
  fs::permissions(folder / "become", fs::perms(04755));
  const auto start = [&](const std::vector<std::string>& own, const std::string& script) {
    const auto job = shell_job(joined({nodes.options, own}),
                               "[ $DDPRUN_ROUND = 1 ] || exec echo up $DDPRUN_ROUND/$WORLD_SIZE; " + script);
    const Words words = joined({{"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"}, job});
    nodes.agents.push_back(std::make_unique<Command>(words, CommandOptions{.cwd = folder.path()}));
  };
  start(kHost, "exec sleep 600");
  // It fails once the other is root's: until then our SIGKILL would end that one.
  start(kGuest,
        "setsid ./become --reuid=0 sleep 600 & until grep -qs '^Uid:.0' /proc/$!/status; do sleep 0.05; done; exit 3");
  for (auto& agent : nodes.agents) {
    const Ended ended = agent->wait_exit(3 * kLimit);
    CHECK(ended == exited(0));
    CHECK(ended.out == "up 2/2\n");  // never one of them alone
  }
  CHECK(has(nodes[1].err(), "of round 1 is still there after SIGKILL"));
}

TEST_CASE("a node that joins ends the round politely and is in the next one", "[nodes][sanitized]") {
  Nodes nodes(elastic("1:3"));
  nodes.add({"--rdzv-conf=last_call_timeout=1,is_host=true"});
  nodes.wait_for_round("1/0/1/", 0);
  nodes.add(kGuest);
  nodes.wait_for_round("2/0/2/", 0);
  nodes.wait_for_round("2/1/2/", 1);
  CHECK(has(nodes[0].out(), "told"));
  nodes.all_end_well();
}

TEST_CASE("SIGTERM lets one node go where enough stay, and ends the job where not", "[nodes]") {
  Nodes nodes(elastic("2:3"));
  nodes.start_elastic(3);
  nodes[2].kill(SIGTERM);
  CHECK(nodes[2].wait_exit(kLimit).code == 143);
  nodes.wait_for("2/[01]/2/0", {0, 1});
  nodes[1].kill(SIGTERM);
  CHECK(nodes[1].wait_exit(kLimit).code == 143);
  CHECK(nodes[0].wait_exit(kLimit).code == 143);
  CHECK(has(nodes[0].err(), "has to leave"));
}

TEST_CASE("a node that its probe or a worker's exit code tells of a preemption leaves, and the others go on",
          "[nodes]") {
  const std::string saves = "trap 'exit 31' TERM USR2; " + kWorker.substr(kWorker.find("echo \"up"));
  Nodes nodes(elastic("1:3"));
  nodes.options.push_back("--preempt-exit-code=31");
  nodes.add(kHost, saves);
  nodes.add({kGuest.front(), "--preemption-probe=./node-1-is-preempted"}, saves);
  nodes.add({kGuest.front(), "--preemption-probe=./node-2-is-preempted"}, saves);
  nodes.wait_for("1/[0-2]/3/0", {0, 1, 2});
  nodes.folder.write("node-1-is-preempted", "");
  CHECK(nodes[1].wait_exit(kLimit).code == 75);
  nodes.wait_for("2/[01]/2/0", {0, 2});
  kill(nodes[2].wait_for_process("DDPRUN_ROUND", "2", kLimit), SIGUSR2);
  CHECK(nodes[2].wait_exit(kLimit).code == 75);
  CHECK(has(nodes[2].err(), "exited with code 31: it is preempted, and has saved"));
  nodes.wait_for_round("3/0/1/0", 0);
  nodes.end_well({0});
}

TEST_CASE("Ctrl-C on one node ends the job on all", "[nodes][fast]") {
  Nodes nodes(fixed(2, free_port()));
  nodes.start_static(2);
  nodes[1].kill(SIGINT);
  for (std::size_t i = 0; i < 2; ++i) CHECK(nodes[i].wait_exit(kLimit).code == 130);
  CHECK(has(nodes[0].err(), "interrupted on "));
}

TEST_CASE("a node too many waits as a spare, and ends well when it was never needed", "[nodes]") {
  Nodes nodes(elastic("2:2"));
  nodes.start_elastic(2);
  Command& spare = nodes.add(kGuest);
  spare.wait_for_output("this one is a spare", kLimit);
  if (GENERATE(false, true)) {
    nodes[1].kill(SIGKILL);
    nodes.wait_for_round("2/1/2/0", 2);
  }
  nodes.end_well({0, 2});
}

TEST_CASE("a spare finds the coordinator that is elected, and takes the lost node's place", "[nodes][sanitized]") {
  Nodes nodes(elastic("2:3"));
  nodes.start_elastic(3);
  Command& spare = nodes.add(kGuest);
  spare.wait_for_output("this one is a spare", kLimit);
  nodes[0].kill(SIGKILL);  // the only endpoint that the spare was given
  nodes.wait_for_round("\\d/2/3/0", 3);
  nodes.end_well({1, 2, 3});
}

TEST_CASE("what cannot be one job is refused with the difference, and the others go on", "[nodes]") {
  Nodes nodes(fixed(2, free_port()));
  nodes.add({"--node-rank=0"});
  const auto refused = [&](const std::vector<std::string>& own, const std::string& why) {
    const Ended ended = nodes.add(own).wait_exit(kLimit);
    CHECK(ended.code == 69);
    CHECK(has(ended.err, why));
  };
  refused({"--node-rank=1", "--nnodes=3"}, "--nnodes is 3 here and 2 in the job");
  refused({"--node-rank=0", "--rdzv-conf=is_host=false"}, "node rank 0 is requested by ");
  refused({"--node-rank=1", "--rdzv-id=other", "--rdzv-conf=join_timeout=1"}, "it belongs to another job (--rdzv-id)");
  nodes.add({"--node-rank=1"});
  nodes.wait_for_round("1/0/2/", 0);
  nodes.end_well({0, nodes.agents.size() - 1});
}

TEST_CASE("on a terminal one line lives while nodes are waited for, and is gone when they are here", "[nodes]") {
  Nodes nodes(fixed(2, free_port()));
  nodes.options.push_back("--nproc-per-node=2");
  Command& waiting = nodes.add({"--node-rank=0"}, kWorker, /*terminal=*/true);
  waiting.wait_for_output("\\r\x1b\\[Kddprun: 1 of 2 nodes, 2 of 4 workers, waiting for node 1, \\d+ s\r", kLimit);
  CHECK(waiting.out().find('\n') == std::string::npos);
  nodes.add({"--node-rank=1"});
  nodes.wait_for_round("1/0/4/", 0);
  CHECK_FALSE(has(waiting.out(), " s\n"));
  nodes.all_end_well();
}

TEST_CASE("the store of every round is at another of the ports that it may have", "[nodes]") {
  const int first = free_port();
  Nodes nodes(fixed(2, free_port()));
  nodes.options.push_back("--store-ports=" + std::to_string(first) + "-" + std::to_string(first + 20));
  const std::string script =
      "echo \"port $MASTER_PORT\"; [ $DDPRUN_ROUND = 2 ] || { touch there-$RANK; "
      "until [ -e there-0 ] && [ -e there-1 ]; do sleep 0.02; done; exit 3; }";
  nodes.add({"--node-rank=0"}, script);
  nodes.add({"--node-rank=1"}, script);
  for (auto& agent : nodes.agents) CHECK(agent->wait_exit(kLimit).code == 0);
  const auto ports = nodes[1].wait_for_output("port (\\d+)\nport (\\d+)\n", 0ms);
  CHECK(std::stoi(ports.at(1)) != std::stoi(ports.at(2)));
  for (const std::size_t i : {1u, 2u}) {
    CHECK(std::stoi(ports.at(i)) >= first);
    CHECK(std::stoi(ports.at(i)) <= first + 20);
  }
}

TEST_CASE("one token, and nobody without it joins", "[nodes][sanitized]") {
  Nodes nodes(fixed(2, free_port()));
  for (const char* name : {"token", "wrong"}) token_file(nodes.folder, name);
  nodes.add({"--node-rank=0", "--token-file=token"});
  Command& stranger = nodes.add({"--node-rank=1", "--token-file=wrong", "--rdzv-conf=join_timeout=1"});
  CHECK(stranger.wait_exit(kLimit).code == 69);
  nodes.add({"--node-rank=1", "--token-file=token"});
  nodes.wait_for_round("1/1/2/", 2);
  nodes.end_well({0, 2});
}

TEST_CASE("with --store-proxy, and with a token, workers find the round's store at their own agent", "[nodes][fast]") {
  const bool by_token = GENERATE(false, true);
  Nodes nodes(fixed(2, free_port()));
  token_file(nodes.folder);
  const std::string way = by_token ? "--token-file=token" : "--store-proxy";
  const std::string worker =
      "echo \"store $MASTER_ADDR $MASTER_PORT $DDPRUN_MASTER_PORT\"; "
      "exec " +
      programs_folder() + "/host_worker";  // its workers meet in the store
  nodes.add({"--node-rank=0", "--nproc-per-node=2", way}, worker);
  nodes.add({"--node-rank=1", "--nproc-per-node=2", way}, worker);
  nodes.all_end_well();
  const auto there = nodes[0].wait_for_output("store 127.0.0.1 (\\d+) (\\d+)\n", 0ms);
  const auto far = nodes[1].wait_for_output("store 127.0.0.1 (\\d+) (\\d+)\n", 0ms);
  CHECK(there.at(1) == there.at(2));
  CHECK(far.at(2) == there.at(2));
  CHECK(far.at(1) != there.at(1));
}

TEST_CASE("what a rank of any node has printed is read at every node, until the job ends", "[nodes]") {
  Nodes nodes(elastic("2"));
  const std::string run_id = "--rdzv-id=log" + std::to_string(getpid());
  nodes.options.push_back(run_id);
  for (const int node : {0, 1})
    nodes.add(node == 0 ? kHost : kGuest, "echo oh of $RANK >&2; " + kWorker + "; echo last of $RANK");
  for (const int node : {0, 1}) nodes[node].wait_for_output("up 1/", kLimit);
  const std::string id = run_id.substr(run_id.find('=') + 1);
  for (const std::string rank : {"0", "1"}) {
    const auto has_all = [&] {
      const std::string out = run({kDdprun, "log", id, "--rank", rank}, kLimit).out;
      return has(out, "up 1/" + rank + "/2/0\n") && has(out, "oh of " + rank + "\n") && count(out, "\n") == 2;
    };
    CHECK(eventually(has_all, kLimit));
  }
  const Ended none = run({kDdprun, "log", id, "--rank", "2"}, kLimit);
  CHECK(none == exited(2));
  CHECK(none.err == "ddprun log: there is no rank 2: the job has ranks 0 to 1.\n");
  Command follows({kDdprun, "log", id, "--rank=1", "-f"}, {});
  follows.wait_for_output("up 1/1", kLimit);
  nodes.all_end_well();
  const Ended ended = follows.wait_exit(kLimit);
  CHECK(ended == exited(0));
  CHECK(has(ended.out, "last of 1\n"));
}

TEST_CASE("a reader of several nodes' output that pauses for longer than the job lasts loses nothing", "[nodes]") {
  const std::vector<std::string> options = elastic("2");
  const std::string print_much = "i=0; while [ $i -lt 40000 ]; do echo $i; i=$((i+1)); done";
  const auto node = [&](const std::string& reader, const std::vector<std::string>& own) {
    const Words words{"sh", "-c", "\"$@\" | { " + reader + "; }", "sh"};
    return joined({words, shell_job(joined({options, own}), print_much)});
  };
  Command guest(node("wc -l", kGuest), {});
  const Ended paused = run(node("sleep 3; wc -l", kHost), kLimit);  // longer than a console may accept nothing
  CHECK(paused.out == "40000\n");
  CHECK(guest.wait_exit(kLimit).out == "40000\n");
}

TEST_CASE("when a job is stopped nobody is told that the store is gone, though a worker is left", "[nodes]") {
  Nodes nodes(fixed(2, free_port()));
  const std::string early = "trap 'exit 0' TERM; echo \"store $DDPRUN_MASTER_PORT\"; while :; do sleep 0.02; done";
  const std::string late =
      "trap 'while [ ! -e go ]; do sleep 0.02; done; exit 0' TERM; echo up; while :; do sleep 0.02; done";
  nodes.add({"--node-rank=0", "--store-proxy"}, early);
  nodes.add({"--node-rank=1", "--store-proxy"}, late);
  const int store = std::stoi(nodes[0].wait_for_output("store (\\d+)\n", kLimit).at(1));
  nodes[1].wait_for_output("up", kLimit);
  nodes[0].kill(SIGINT);
  CHECK(eventually([&] { return can_be_listened_on(store); }, kLimit));
  nodes.let_workers_end();
  CHECK(nodes[0].wait_exit(kLimit).code == 130);
  const Ended left = nodes[1].wait_exit(kLimit);
  CHECK(left.code == 130);
  CHECK_FALSE(has(left.err, "unreachable"));
}

TEST_CASE("of two nodes, without the one that coordinates, the other ends the job, to be requeued", "[nodes]") {
  Nodes nodes(fixed(2, free_port()));
  nodes.start_static(2);
  nodes[0].kill(SIGKILL);
  const Ended left = nodes[1].wait_exit(kLimit);
  CHECK(left.code == 75);
  CHECK(has(left.err, "the coordinating node is gone"));
}

TEST_CASE("two of three static nodes are killed and started again: the third one begins anew with them", "[nodes]") {
  Nodes nodes(fixed(3, free_port()));
  nodes.start_static(3);
  for (std::size_t i = 0; i < 2; ++i) nodes[i].kill(SIGKILL);
  nodes[2].wait_for_output("this node stops its workers and waits 5 s", kLimit);
  for (const char* rank : {"0", "1"}) nodes.add({"--node-rank", rank});
  nodes.wait_for("2/\\d/3/0", {2, 3, 4});
  nodes.end_well({2, 3, 4});
}

TEST_CASE("of three nodes the last one that is left ends soon, to be requeued", "[nodes]") {
  Nodes nodes(fixed(3, free_port()));
  nodes.start_static(3);
  for (std::size_t i = 0; i < 2; ++i) nodes[i].kill(SIGKILL);
  CHECK(nodes[2].wait_exit(20s).code == 75);  // before it would give up looking
}

TEST_CASE("a static job whose lost node does not return ends with the code that asks for another start", "[nodes]") {
  Nodes nodes(fixed(2, free_port()));
  nodes.options.push_back("--rdzv-conf=join_timeout=6");
  nodes.start_static(2);
  nodes[1].kill(SIGKILL);
  const Ended left = nodes[0].wait_exit(kLimit);
  CHECK(left.code == 75);
  CHECK(has(left.err, "only 1 of 2 nodes joined in time"));
}

TEST_CASE("three nodes lose the one that coordinates: the others go on, and it joins again where it was",
          "[nodes][fast]") {
  Nodes nodes(elastic("2:3"));
  nodes.start_elastic(3);
  nodes[0].kill(SIGKILL);
  nodes.wait_for("2/\\d/2/0", {1, 2});
  CHECK(has(nodes[1].err(), ", the coordinator, was lost: a new round begins."));
  nodes.add(kHost);  // it acts as the first node until it is contacted
  nodes.wait_for_round("3/2/3/", 3);
  nodes.end_well({1, 2, 3});
}

TEST_CASE("a node that coordinates and leaves hands over, to the last one that is left", "[nodes]") {
  Nodes nodes(elastic("1:3"));
  nodes.start_elastic(3);
  nodes[0].kill(SIGTERM);
  CHECK(nodes[0].wait_exit(kLimit).code == 143);  // its worker reports no snapshot
  nodes.wait_for("\\d/\\d/2/0", {1, 2});
  const std::size_t second = has(nodes[1].out(), "/0/2/0") ? 1 : 2, last = 3 - second;
  nodes[second].kill(SIGTERM);
  CHECK(nodes[second].wait_exit(kLimit).code == 143);
  nodes.wait_for_round("\\d/0/1/0", last);
  nodes.end_well({last});
}

TEST_CASE("late nodes find the coordinator at any of the places named", "[nodes]") {
  const auto place = [](int port) { return "127.0.0.1:" + std::to_string(port); };
  // Without binding it: an agent that tries it in that moment would go on to the next place.
  const auto is_taken = [](int port) {
    char end[8];
    std::snprintf(end, sizeof end, ":%04X", port);
    for (const char* const table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
      std::istringstream lines(read_file(table));
      std::string number, local, remote, state;
      for (std::string line; std::getline(lines, line);)
        if (std::istringstream(line) >> number >> local >> remote >> state && local.ends_with(end) && state == "0A")
          return true;
    }
    return false;
  };
  const int ports[] = {free_port(), free_port(), free_port()};
  Nodes nodes({"--nnodes=2:4", "--rdzv-backend=c10d", "--rdzv-id=places", "--rdzv-conf=last_call_timeout=1",
               "--rdzv-endpoint=" + place(ports[0]) + "," + place(ports[1]) + "," + place(ports[2])});
  for (const int port : ports) {  // each agent takes the first free endpoint
    nodes.add();
    REQUIRE(eventually([&] { return is_taken(port); }, kLimit));
  }
  nodes.wait_for("\\d/\\d/3/0", {0, 1, 2});
  nodes[0].kill(SIGKILL);
  nodes.wait_for("\\d/\\d/2/0", {1, 2});
  nodes.add();  // at the first endpoint, where a new job would begin if the old one did not continue at the others
  nodes.wait_for_round("\\d/2/3/0", 3);
  nodes.end_well({1, 2, 3});
}

// Held first by a connection that has just ended, then by a program that never answers.
TEST_CASE("where the meeting place's port is held the nodes say so at once, and meet when it is free", "[nodes]") {
  const bool listens = GENERATE(false, true);
  Fd holder(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in6 place{};
  place.sin6_family = AF_INET6;
  socklen_t size = sizeof place;
  auto* address = reinterpret_cast<sockaddr*>(&place);
  REQUIRE(bind(holder.get(), address, size) == 0);
  REQUIRE(getsockname(holder.get(), address, &size) == 0);
  if (listens) REQUIRE(listen(holder.get(), 16) == 0);
  const std::string port = std::to_string(ntohs(place.sin6_port));
  Nodes nodes({"--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:" + port, "--rdzv-id=job"});
  for (int i = 0; i < 2; ++i) nodes.add();
  for (std::size_t i = 0; i < 2; ++i)
    nodes[i].wait_for_output("localhost:" + port + ": .*this node would listen there, but cannot bind port " + port +
                                 " \\(Address already in use\\), and tries again",
                             kLimit);
  holder.reset();
  nodes.wait_for("1/\\d/2/0", {0, 1});
  nodes.all_end_well();
}

TEST_CASE("nobody in time, a wrong name, somebody else's address: one sentence each", "[nodes]") {
  const auto alone = [](const std::vector<std::string>& options) { return run(shell_job(options, "true"), kLimit); };
  const std::string port = std::to_string(free_port());
  const Ended nobody = alone({"--nnodes=2", "--node-rank=1", "--master-addr=127.0.0.1", "--master-port=" + port,
                              "--rdzv-conf=join_timeout=1", "--local-addr=192.0.2.7"});
  CHECK(nobody.code == 69);
  CHECK(has(nobody.err, "192.0.2.7 (--local-addr) is not an address of "));
  CHECK(has(nobody.err, "127.0.0.1:" + port + ": Connection refused"));
  const Ended few = alone({"--nnodes=2", "--node-rank=0", "--master-addr=127.0.0.1", "--master-port=" + port,
                           "--rdzv-conf=join_timeout=6"});
  CHECK(few.code == 69);
  CHECK(has(few.err, "only 1 of 2 nodes joined in time"));
  CHECK(has(few.err, "the nodes are to meet at 127.0.0.1, the loopback address of every machine"));
  const Ended wrong = alone({"--nnodes=2", "--node-rank=0", "--master-addr=192.0.2.1", "--master-port=" + port,
                             "--rdzv-conf=join_timeout=6"});
  CHECK(wrong.code == 69);
  CHECK(count(wrong.err, "192.0.2.1 is not an address of") == 1);
  CHECK(has(wrong.err, "does not lead here so far"));
  CHECK(has(wrong.err, "only 1 of 2 nodes joined in time"));
  const Ended interface =
      alone({"--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:1", "--interface=eth7"});
  CHECK(interface.code == 2);
  CHECK(has(interface.err, "eth7"));
  const Listening taken = open_listener("", 0);
  const Ended busy =
      alone({"--nnodes=2", "--node-rank=0", "--master-addr=127.0.0.1", "--master-port=" + std::to_string(taken.port)});
  CHECK(busy.code == 69);
  CHECK(
      has(busy.err, "cannot bind the coordinator to port " + std::to_string(taken.port) + ": Address already in use"));
  close(taken.fd);
}

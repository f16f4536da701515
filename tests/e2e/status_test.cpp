// `ddprun status` and `ddprun list` of real jobs: on one machine, each node's agent asked for itself.
#include <pwd.h>

#include <nlohmann/json.hpp>

#include "tests/e2e/hang_job.h"
#include "tests/e2e/orphan_job.h"
#include "tests/e2e/programs.h"
#include "tests/support/test.h"

using nlohmann::json;

namespace {

constexpr const char* kSteps = "3000";

// What the job, or the agent of that process, answers; null: nothing yet.
json live(const std::string& job) {
  const Ended ended = run({ddprun_program(), "status", "--json", job}, kLimit);
  const json all = json::parse(ended.out, nullptr, /*allow_exceptions=*/false);
  return all.is_object() ? all.value("live", json()) : json();
}

// Once what the job answers has it.
template <class Condition>
json live_when(const std::string& job, Condition has_it) {
  json now;
  const bool came = eventually(
      [&] {
        now = live(job);
        return now.is_object() && has_it(now);
      },
      kLimit);
  CAPTURE(now.dump(1));
  CHECK(came);
  return now;
}

bool trains(const json& now) {
  return now.value("state", "") == "running" && now["ranks"].size() == 3 && now["step"].is_number() &&
         now["step"] > 0 && now["activity"] == "train";
}

// Once the coordinator and all nodes have answered in time.
json whole(const std::string& job) {
  return live_when(job, [](const json& now) {
    return now.value("problem", "").empty() && now.value("silent_nodes", json::array()).empty() &&
           now.contains("round") && !now["ranks"].empty();
  });
}

}  // namespace

TEST_CASE("every node of a job tells the same of all of them", "[status][nodes][sanitized]") {
  ThreeRanks job(3, {"--rdzv-id=told"}, {programs_folder() + "/hang_worker", kSteps});
  const json first = live_when("told", trains);
  CHECK(first["run_id"] == "told");
  CHECK(first["state"] == "running");
  CHECK(first["round"] == 1);
  CHECK(first["world_size"] == 3);
  CHECK(first["nodes"].size() == 3);
  CHECK(first["activity"] == "train");
  CHECK(first["silent_nodes"].empty());
  for (int node = 0; node < 3; ++node) {
    const json now = whole(std::to_string(job.agent_of(node)));
    CHECK(now["step"] >= first["step"]);
    for (const char* same : {"run_id", "state", "round", "world_size", "nodes", "coordinator", "restarts"})
      CHECK(now[same] == first[same]);
    for (const json& rank : now["ranks"]) CHECK(rank["memory_bytes"] > 0);
  }
  live_when("told", [](const json& now) { return now["steps_per_second"].is_number(); });
  const Ended text = run({ddprun_program(), "status", "told"}, kLimit);
  CHECK_THAT(text.out, Matches("id: +told\nstate: +running for [\\s\\S]*\nRANK  NODE [\\s\\S]*\n2 +[^\n]*\n"));
  CHECK(has(run({ddprun_program(), "list"}, kLimit).out, "\ntold "));
  const Ended wrong = run({ddprun_program(), "status", "no-such-job"}, kLimit);
  CHECK(wrong.code == 2);
  CHECK(has(wrong.err, "told"));
}

TEST_CASE("the rank that all wait for is named", "[status][nodes]") {
  ThreeRanks job(3, {"--rdzv-id=held-up", "--hang-timeout=off"}, {programs_folder() + "/hang_worker", kSteps});
  live_when("held-up", trains);
  const pid_t stopped = job.worker(1);
  kill(stopped, SIGSTOP);
  const json now = live_when("held-up", [](const json& one) {
    const json& awaited = one["waits_for"];
    return awaited["ranks"] == json{1} && has(awaited["text"].get<std::string>(), "; 2 ranks wait") &&
           one["ranks"][1]["stopped"] == true;
  });
  kill(stopped, SIGCONT);
  CHECK_THAT(now["waits_for"]["text"].get<std::string>(), StartsWith("rank 1 on "));
}

TEST_CASE("a job elsewhere is asked at its endpoint, by who has its token", "[status][nodes]") {
  const TempFolder folder;
  const std::string token = "--token-file=" + token_file(folder), other = "--token-file=" + token_file(folder, "other");
  ThreeRanks job(3, {"--rdzv-id=far", token}, {programs_folder() + "/hang_worker", kSteps});
  live_when("far", trains);
  const std::string endpoint = "--rdzv-endpoint=localhost:" + std::to_string(job.port());
  const auto ask = [&](const std::vector<std::string>& more) {
    return run(joined({{ddprun_program(), "status", "--json", "far", endpoint}, more}), kLimit);
  };
  const Ended told = ask({token});
  CHECK(told == exited(0));
  CHECK(json::parse(told.out)["live"]["ranks"].size() == 3);
  for (const auto& words : {std::vector<std::string>{}, std::vector<std::string>{other}}) {
    const Ended refused = ask(words);
    CHECK(refused.code == 69);
    CHECK(refused.out.empty());
    CHECK(has(refused.err, "ddprun status: cannot ask the job far: localhost:"));
  }
}

TEST_CASE("top shows the job on a terminal until q, the stacks of a rank on p, and one look without a terminal",
          "[status][nodes][sanitized]") {
  ThreeRanks job(1, {"--rdzv-id=looked-at"}, {programs_folder() + "/hang_worker", kSteps});
  live_when("looked-at", trains);
  Command top({ddprun_program(), "top", "looked-at"}, {.env = {{"NO_COLOR", "1"}}, .terminal = true});
  top.wait_for_output("- .*active  3 ranks", kLimit);
  top.wait_for_output("  2    (compute|wait grads|load) ", kLimit);
  top.wait_for_output("[LCW]{20}", kLimit);
  top.type("jp");
  top.wait_for_output("rank 0 on .*, process [0-9]+: has ", kLimit);
  top.type("\x1b");
  top.wait_for_output("d: drain", kLimit);
  top.type("d");
  top.wait_for_output("y: yes", kLimit);
  top.type("y");
  top.wait_for_output("Not done: too few others are left", kLimit);
  top.type("q");
  CHECK(top.wait_exit(kLimit) == exited(0));
  CHECK(has(top.out(), "\x1b[?1049l"));  // the screen that was there before

  const Ended once = run({ddprun_program(), "top", "looked-at"}, kLimit);
  CHECK(once == exited(0));
  CHECK_THAT(once.out, Matches("looked-at  running[^\x1b]*\n  2     [^\x1b]*"));

  Command last({ddprun_program(), "top", "looked-at"}, {.terminal = true});
  last.wait_for_output("active  3 ranks", kLimit);
  job.agents[0]->kill(SIGINT);
  last.wait_for_output("ddprun top: the job has ended.", kLimit);
  CHECK(last.wait_exit(kLimit) == exited(0));
}

TEST_CASE("a job is paused and goes on, restarted and stopped, and who did it is in its events",
          "[status][nodes][sanitized]") {
  const TempFolder folder;
  const std::string events = folder / "events.jsonl";
  ThreeRanks job(1, {"--rdzv-id=acted-on", "--event-log-handler=file:" + events},
                 {programs_folder() + "/hang_worker", kSteps});
  const auto ctl = [](const Words& words) {
    return run(joined({{ddprun_program(), "ctl", "acted-on"}, words}), kLimit);
  };
  live_when("acted-on", trains);
  CHECK(ctl({"resume"}).code == 1);
  const Ended paused = ctl({"pause"});
  CHECK(paused == exited(0));
  CHECK_THAT(paused.out, Matches("[0-9:]{8} pause: all workers are stopped until resume\\.\n"));
  live_when("acted-on", [](const json& now) { return trains(now) && now["ranks"][0]["paused"] == true; });
  const json before =
      live_when("acted-on", [](const json& now) { return trains(now) && now["ranks"][2]["age_seconds"] > 3; });
  CHECK_FALSE(job.prints("hangs"));
  CHECK(whole("acted-on")["step"] == before["step"]);
  CHECK(ctl({"resume"}) == exited(0));
  live_when("acted-on", [&](const json& now) { return now["step"] > before["step"]; });
  const Ended saved = ctl({"snapshot"});
  CHECK(saved == exited(0));
  CHECK_THAT(saved.out, Matches("[0-9:]{8} snapshot: step [0-9]+ is saved, and training goes on\\.\n"));
  CHECK(whole("acted-on")["round"] == 1);
  CHECK(ctl({"restart"}) == exited(0));
  live_when("acted-on", [](const json& now) { return now.value("round", 0) == 2 && trains(now); });
  const auto of_ranks = [](std::size_t count) {
    return [count](const json& now) {
      const json ranks = now.value("ranks", json::array());
      return ranks.size() == count && std::all_of(ranks.begin(), ranks.end(), [](const json& rank) {
               return rank["step"].is_number() && rank["step"] > 0;
             });
    };
  };
  CHECK(ctl({"add-workers"}) == exited(0));
  live_when("acted-on", of_ranks(4));
  CHECK(ctl({"remove-workers", "2"}) == exited(0));
  CHECK(live_when("acted-on", of_ranks(2))["restarts"]["charged"] == 0);
  CHECK(ctl({"remove-workers", "2"}).code == 1);
  CHECK(ctl({"add-workers", "99"}).code == 1);
  CHECK(ctl({"resize", "1:2"}).code == 1);
  CHECK(ctl({"drain", "0"}).code == 1);
  CHECK(ctl({"stop"}) == exited(0));
  job.agents[0]->wait_exit(kLimit);
  const std::string said = read_file(events);
  for (const char* act : {"pause", "resume", "snapshot", "restart", "add-workers 1", "remove-workers 2", "stop"})
    CHECK(has(said, std::string("\"act\":\"") + act + "\""));
  CHECK(has(said, "\"by\":\"" + std::string(getpwuid(geteuid())->pw_name) + " on "));
  CHECK(ctl({"stop"}).code == 2);
}

TEST_CASE("a fault is undone when its time is over, and a job that was not made for it suffers none",
          "[status][nodes][sanitized]") {
  const std::string program =
      "import sys, time\nsys.path.insert(0, '" + source_folder() +
      "/rendezvous/channel')\nimport worker_channel as c\nc.attach()\nc.phase(c.TRAINING)\nn = 0\n"
      "while True: n += 1; c.step(n); time.sleep(0.01)";
  const auto started = [&](const std::string& id, const std::vector<std::string>& more) {
    return joined({{"prlimit", "--fsize=1024000000:", ddprun_program(), "--rdzv-id=" + id},
                   more,
                   {"--no-python", venv_python(), "-c", program}});
  };
  const auto chaos = [](const std::string& id, const std::string& seed) {
    return std::vector<std::string>{ddprun_program(), "chaos", id, "--seed=" + seed, "--faults=disk", "--count=1"};
  };
  Command strict(started("strict", {}));
  live_when("strict", [](const json& now) { return now["step"].is_number(); });
  const Ended refused = run(chaos("strict", "31"), kLimit);
  CHECK(refused.code == 1);
  CHECK(has(refused.err, "--allow-chaos"));

  Command job(started("suffers", {"--allow-chaos"}));
  const json before = live_when("suffers", [](const json& now) { return now["step"].is_number(); });
  const std::string limits = "/proc/" + std::to_string(before["ranks"][0]["pid"].get<int>()) + "/limits";
  const auto has_limit = [&](const std::string& bytes) {
    return std::regex_search(read_file(limits), std::regex("Max file size +" + bytes + " "));
  };
  CHECK(has_limit("1024000000"));
  Command client(chaos("suffers", "31"));  // 3 s
  CHECK(eventually([&] { return has_limit("4096"); }, kLimit));
  client.kill(SIGKILL);  // the agent undoes it by itself
  CHECK(eventually([&] { return has_limit("1024000000"); }, kLimit));
  CHECK(whole("suffers")["round"] == 1);

  Command fragile({ddprun_program(), "--rdzv-id=fragile", "--allow-chaos", programs_folder() + "/hang_worker", kSteps});
  live_when("fragile", [](const json& now) { return now["step"].is_number(); });
  const Ended declined = run(chaos("fragile", "31"), kLimit);
  CHECK(declined == exited(1));
  CHECK(has(declined.err, "not done; the job's ddprun says why"));
  CHECK(declined.out.empty());
  fragile.wait_for_output("not done, as rank 0 would be ended by SIGXFSZ", kLimit);
}

TEST_CASE("who ends before an act is asked for changes nothing, and who has another token is refused",
          "[status][nodes]") {
  const TempFolder folder;
  const std::string token = token_file(folder), other = token_file(folder, "other");
  ThreeRanks job(3, {"--rdzv-id=guarded", "--token-file=" + token}, {programs_folder() + "/hang_worker", kSteps});
  live_when("guarded", trains);
  const auto elsewhere = [&](const std::string& own) {
    return run({ddprun_program(), "ctl", "guarded", "stop", "--rdzv-endpoint=localhost:" + std::to_string(job.port()),
                "--token-file=" + own},
               kLimit);
  };
  CHECK(elsewhere(other).code == 69);
  const std::string half =
      "import socket,os\ns=socket.socket(socket.AF_UNIX)\ns.connect('\\0ddprun/'+str(os.geteuid())+'/" +
      std::to_string(job.agent_of(0)) + "/guarded')\ns.send(b'act {\"act\":\"stop\",\"by\":\"x\"}')\n";
  CHECK(run({"python3", "-c", half}, kLimit) == exited(0));
  const json before = whole("guarded");
  live_when("guarded", [&](const json& now) { return now["step"] > before["step"]; });
  CHECK(whole("guarded")["round"] == 1);
  CHECK(elsewhere(token) == exited(0));
  for (auto& agent : job.agents) CHECK(agent->wait_exit(kLimit).code != 0);
}

// In a network namespace, whose sockets are this test's own.
TEST_CASE("another user's sockets hide no job, and to act on one of several it is named", "[status]") {
  if (geteuid() != 0 || run({"unshare", "--net", "ip", "link", "set", "lo", "up"}, kLimit).code != 0) {
    WARN("skipped: only root can start processes of other users, in a network namespace");
    return;
  }
  const std::string take_names = R"(
import socket, sys, time
kept = []
def take(name, backlog):
    s = socket.socket(socket.AF_UNIX)
    s.bind("\0ddprun/65534/" + name)
    s.listen(backlog)
    kept.append(s)
take(sys.argv[1] + "/silent", 8)
take(sys.argv[1] + "/full", 0)
kept.append(socket.socket(socket.AF_UNIX))
kept[-1].connect("\0ddprun/65534/" + sys.argv[1] + "/full")
print("taken", flush=True)
time.sleep(1000)
)";
  const std::string script = R"(
ip link set lo up
as="setpriv --reuid=65534 --regid=65534 --clear-groups"
runs() { until $as "$0" stacks $1 > /dev/null 2>&1; do sleep 0.05; done; }
ends() { while $as "$0" stacks $1 > /dev/null 2>&1; do sleep 0.05; done; }
$as "$0" --rdzv-id=first sleep 1000 &
runs first
$as sleep 1000 & newer=$!
until grep -qs "^Uid:.65534" /proc/$newer/status; do sleep 0.05; done
python3 -c "$1" $newer > names & attacker=$!
until grep -qs taken names; do sleep 0.05; done
$as "$0" status | sed -n "s/^id: */asked: /p"
$as "$0" stacks | sed -n "s/^rank 0 .*/stacks/p"
$as "$0" --rdzv-id=second sleep 1000 &
runs second
kill $attacker && wait $attacker
$as "$0" ctl stop 2>&1; echo "without a name: $?"
"$0" ctl stop 2>&1; echo "by root: $?"
$as "$0" ctl first stop; ends first
$as "$0" ctl stop; echo "the only one: $?"
kill $newer
wait
)";
  const TempFolder folder;
  const Ended ended = run({"unshare", "--net", "bash", "-c", script, ddprun_program(), take_names}, kLimit,
                          {.env = {{"HOME", folder / "."}}, .cwd = folder / "."});
  CAPTURE(ended.err);
  CHECK(has(ended.out, "asked: first\n"));
  CHECK(has(ended.out, "stacks\n"));
  CHECK(has(ended.out, "ddprun ctl: several jobs run here; name one of them: first and second.\nwithout a name: 2\n"));
  CHECK(has(ended.out,
            "ddprun ctl: no job of yours runs on this machine; there are: first (of user 65534) and second "
            "(of user 65534).\nby root: 2\n"));
  CHECK(has(ended.out, "the only one: 0\n"));
}

TEST_CASE("of a script that reports nothing the last line is told where its output is a file, and a pipe is left alone",
          "[status][sanitized]") {
  const TempFolder folder;
  const std::string out = folder / "out.txt";
  const std::string script = "echo epoch 1; printf 'epoch 2: 10%%\\repoch 2: 20%%'; exec sleep 1000";
  Command job({"sh", "-c", "echo before > \"$0\"; exec \"$@\" >> \"$0\"", out, ddprun_program(), "--rdzv-id=prints",
               "--nproc-per-node=2", "--no-python", "sh", "-c", script});
  const json now = live_when("prints", [](const json& one) {
    return one["last_output"].is_object() && one["last_output"]["line"] == "epoch 2: 20%";
  });
  CHECK(now["last_output"]["rank"].is_null());  // both write it
  CHECK(now["last_output"]["age_seconds"] >= 0);
  CHECK(now["ranks"][0]["last_output"].is_null());
  const Ended text = run({ddprun_program(), "status", "prints"}, kLimit);
  CHECK_THAT(text.out, Matches("[\\s\\S]*\nlast line:  [^\n]* ago: epoch 2: 20%\n[\\s\\S]*"));
  CHECK(has(run({ddprun_program(), "top", "prints"}, kLimit).out, "\nlast line: "));
  job.kill(SIGTERM);
  job.wait_exit(kLimit);

  Command piped({ddprun_program(), "--rdzv-id=pipes", "--no-python", "sh", "-c", "echo epoch 1; exec sleep 1000"});
  piped.wait_for_output("epoch 1", kLimit);
  const json nothing = live_when("pipes", [](const json& one) { return one.value("state", "") == "running"; });
  CHECK(nothing["last_output"].is_null());
  CHECK_FALSE(has(run({ddprun_program(), "status", "pipes"}, kLimit).out, "last line"));
  piped.kill(SIGTERM);
  piped.wait_exit(kLimit);

  Command kept({ddprun_program(), "--rdzv-id=kept", "--nproc-per-node=2", "--tee=3",
                "--log-dir=" + (folder / "logs").string(), "--no-python", "sh", "-c",
                "echo epoch 1 of $RANK; exec sleep 1000"});
  live_when("kept", [](const json& one) {
    const json& ranks = one["ranks"];
    return ranks.size() == 2 && ranks[1]["last_output"].is_object() && ranks[0]["last_output"].is_object() &&
           ranks[1]["last_output"]["line"] == "epoch 1 of 1";
  });
  CHECK_THAT(run({ddprun_program(), "status", "kept"}, kLimit).out,
             Matches("[\\s\\S]*MEMORY +LAST LINE\n0 [^\n]* ago: epoch 1 of 0\n[\\s\\S]*"));
}

// Snapshots in memory with a copy on the next node: a host is lost with all that runs there, and the rank that takes
// its place finds its own state, at the newest step that all ranks have.
#include "tests/e2e/host_job.h"
#include "tests/e2e/programs.h"
#include "tests/support/soak.h"
#include "tests/support/test.h"

namespace {

constexpr int kRanks = 3;
constexpr auto kStoryLimit = 60s;

struct Line {  // of the file "story" (copies_worker.py)
  int round = 0, rank = 0, world = 0;
  std::string what = {}, step = {};
  int number() const { return std::stoi(step); }
};

class CopiesJob : public HostJob {
 public:
  CopiesJob(int hosts, Words options, int steps, int bytes)
      : HostJob(hosts, {}), options_(std::move(options)), steps_(steps), bytes_(bytes) {
    fs::permissions(folder.write("job.token", "8f3b0c5de1a94726b8d05f13c7e2a964"), fs::perms::owner_read);
    for (int host = 0; host < hosts; ++host) start_node(host);
  }

  void start_node(int host, const Words& own = {}) {
    const std::string path = "PYTHONPATH=" + source_folder() + "/rendezvous/channel";
    start_command(
        host,
        joined({{"env", "PYTHONDONTWRITEBYTECODE=1", path, kDdprun},
                options_,
                own,
                {source_folder() + "/tests/e2e/copies_worker.py", std::to_string(steps_), std::to_string(bytes_)}}));
  }

  std::vector<Line> story() const {
    std::vector<Line> out;
    std::ifstream in(folder / "story");
    for (std::string text; std::getline(in, text) && !in.eof();) {
      std::istringstream words(text);
      Line line;
      words >> line.round >> line.rank >> line.world >> line.what >> line.step;
      if (line.what == "WRONG") throw std::runtime_error("rank " + std::to_string(line.rank) + " found " + line.step);
      out.push_back(line);
    }
    return out;
  }

  // The last step that all ranks of that round have kept; 0: none.
  int kept_by_all(int round) const {
    std::map<int, int> last;
    int world = 0;
    for (const Line& line : story())
      if (line.round == round && line.what == "kept") {
        last[line.rank] = line.number();
        world = line.world;
      }
    int least = 0;
    if (static_cast<int>(last.size()) == world)
      for (const auto& [rank, step] : last) least = least == 0 ? step : std::min(least, step);
    return least;
  }
  int last_round() const {
    int last = 0;
    for (const Line& line : story()) last = std::max(last, line.round);
    return last;
  }
  // In the first round after that one in which all ranks have resumed.
  int wait_for_resume(int round, int world = kRanks) {
    int step = -1;
    const auto look = [&] {
      read_output();
      std::map<int, std::set<int>> ranks;
      for (const Line& line : story()) {
        if (line.round <= round || line.what != "resumed" || line.world != world) continue;
        step = line.number();
        ranks[line.round].insert(line.rank);
        if (static_cast<int>(ranks[line.round].size()) == world) return true;
      }
      return false;
    };
    if (!eventually(look, kStoryLimit)) throw std::runtime_error("the ranks did not resume" + output());
    return step;
  }
  void wait_for_step(int step) {
    const auto look = [&] {
      read_output();
      return kept_by_all(last_round()) >= step;
    };
    if (!eventually(look, kStoryLimit)) throw std::runtime_error("the ranks did not get on" + output());
  }
  void require_end(const std::vector<int>& which) {
    for (const int host : which) {
      const Ended end = (*this)[host].wait_exit(kStoryLimit);
      INFO(Hosts::name(host) << output());
      REQUIRE(end == exited(0));
    }
    story();
  }

 private:
  void read_output() {
    for (int host = 0; host < hosts.count(); ++host) (*this)[host].mark();
  }
  std::string output() {
    std::string out;
    for (int host = 0; host < hosts.count(); ++host)
      out += "\n" + Hosts::name(host) + ":\n" + (*this)[host].out() + (*this)[host].err();
    return out;
  }

  const Words options_;
  const int steps_, bytes_;
};

const std::string kEverywhere = "host0:29400,host1:29400,host2:29400";

Words elastic(const std::string& nodes, const Words& more = {}) {
  return joined({elastic_over_hosts(nodes, kEverywhere), {"--max-restarts=10", "--memory-snapshots=64M"}, more});
}

}  // namespace

TEST_CASE("a spare that takes a lost host's place has the lost rank's state", "[hosts][copies]") {
  if (!hosts_or_skip()) return;
  const int lost = GENERATE(1, 0);  // host 0 has the coordinator
  CopiesJob job(4, elastic("3:3", {"--spares=1", "--token-file=job.token"}), 300, 200'000);
  job.wait_for_step(20);
  const int round = job.last_round();
  std::set<int> trains;
  for (int host = 0; host < 4; ++host)
    if (!job[host].processes("LOCAL_RANK", "0").empty()) trains.insert(host);
  REQUIRE(trains.size() == kRanks);
  const int victim = trains.contains(lost) ? lost : *trains.rbegin();
  job.kill_node(victim);
  const int step = job.wait_for_resume(round);
  CHECK(step >= job.kept_by_all(round) - 1);
  std::vector<int> others;
  for (int host = 0; host < 4; ++host)
    if (host != victim) others.push_back(host);
  job.require_end(others);
}

TEST_CASE("the loss of a worker costs no state, and another world size begins anew", "[hosts][copies]") {
  if (!hosts_or_skip()) return;
  CopiesJob job(3, elastic("2:3", {"--rdzv-conf=last_call_timeout=5"}), 300, 200'000);
  job.wait_for_step(10);
  int round = job.last_round();
  REQUIRE(::kill(job.worker(1), SIGKILL) == 0);
  CHECK(job.wait_for_resume(round) >= job.kept_by_all(round));
  round = job.last_round();
  job.wait_for_step(job.kept_by_all(round) + 5);
  job.kill_node(2);
  CHECK(job.wait_for_resume(round, 2) == 0);
  job.require_end({0, 1});
}

TEST_CASE("one node alone keeps its ranks' states with copy=True, and its keep() waits for nobody", "[hosts][copies]") {
  if (!hosts_or_skip()) return;
  CopiesJob job(1, {"--nproc-per-node=2", "--max-restarts=3", "--memory-snapshots=64M"}, 200, 1000);
  job.wait_for_step(10);
  const int round = job.last_round();
  REQUIRE(::kill(job.worker(0), SIGKILL) == 0);
  CHECK(job.wait_for_resume(round, 2) >= job.kept_by_all(round));
  job.require_end({0});
}

// Large states, so that the moment is often one in which states are written, copied or fetched.
TEST_CASE("a host killed at a random moment leaves no torn state and none of another step", "[hosts][copies]") {
  if (!hosts_or_skip()) return;
  Series("a host killed while snapshots are kept and copied", 1, 100).run([](std::uint64_t seed) {
    std::mt19937_64 random(seed);
    CopiesJob job(kRanks, elastic("3:3"), 60, 4'000'000);
    for (int loss = 0; loss < 2; ++loss) {
      const int host = static_cast<int>(random() % kRanks), step = 3 + static_cast<int>(random() % 8);
      const auto pause = std::chrono::microseconds(random() % 60'000);
      INFO(Hosts::name(host) << ", " << step << " steps later and " << pause.count() << " us");
      job.wait_for_step(job.kept_by_all(job.last_round()) + step);
      const auto until = std::chrono::steady_clock::now() + pause;
      while (std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(100us);
      const int round = job.last_round();
      job.kill_node(host);
      const int kept = job.kept_by_all(round);
      job.start_node(host);
      const int resumed = job.wait_for_resume(round);
      REQUIRE(resumed >= kept - 1);
    }
    job.require_end({0, 1, 2});
  });
}

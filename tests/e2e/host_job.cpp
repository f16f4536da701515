#include "tests/e2e/host_job.h"

#include "tests/e2e/programs.h"
#include "tests/support/test.h"

namespace ddprun::test {
namespace {

const std::string kWorker = programs_folder() + "/host_worker";
constexpr std::chrono::seconds kHostLimit{30};  // for every wait here; some include a lease and more

std::optional<Beat> parse_beat(const std::string& line) {
  std::istringstream words(line);
  long long when = 0;
  Beat beat;
  if (!(words >> when >> beat.round >> beat.rank >> beat.world >> beat.host)) return {};
  beat.when = Instant(std::chrono::nanoseconds(when));
  return beat;
}

// The last round of that world size that is complete after the instant; round 0: none.
Training find_training(const std::vector<Beat>& beats, int world, Instant after, bool is_new) {
  std::map<int, Training> rounds;
  std::set<int> old;
  for (const Beat& beat : beats) {
    if (beat.when <= after) old.insert(beat.round);
    if (beat.world != world || beat.when <= after) continue;
    Training& training = rounds[beat.round];
    training.round = beat.round;
    if (training.hosts.emplace(beat.rank, beat.host).second) training.since = std::max(training.since, beat.when);
  }
  for (auto at = rounds.rbegin(); at != rounds.rend(); ++at)
    if (static_cast<int>(at->second.hosts.size()) == world && !(is_new && old.contains(at->first))) return at->second;
  return {};
}

}  // namespace

HostJob::HostJob(int count, std::vector<std::string> options) : hosts(count), options_(std::move(options)) {}

Command& HostJob::start(int host, const std::vector<std::string>& own) {
  return start_command(host, joined({{kDdprun}, options_, own, {kWorker}}));
}

Command& HostJob::start_command(int host, const std::vector<std::string>& command) {
  auto& node = nodes_[host];
  if (node) earlier_.push_back(std::move(node));
  node = std::make_unique<Command>(hosts.on(host, command), CommandOptions{.cwd = folder.path()});
  return *node;
}

pid_t HostJob::agent(int host) {
  Command& node = *nodes_.at(host);
  pid_t found = 0;
  const auto look = [&] {
    for (const Process& process : node.processes())
      if (process.parent == node.pid() && process.command_line.starts_with(kDdprun)) found = process.pid;
    return found != 0;
  };
  if (!eventually(look, kHostLimit)) throw std::runtime_error("no agent on " + Hosts::name(host));
  return found;
}

pid_t HostJob::worker(int host) { return nodes_.at(host)->wait_for_process("LOCAL_RANK", "0", kHostLimit); }

void HostJob::kill_node(int host) {
  Command& node = *nodes_.at(host);
  for (const Process& process : node.processes()) ::kill(process.pid, SIGKILL);
}

const std::vector<Beat>& HostJob::beats() {
  std::ifstream in(folder / "beats");
  in.seekg(beats_read_);
  for (std::string line; std::getline(in, line) && !in.eof();) {  // the last line may be half written
    beats_read_ += static_cast<std::streamoff>(line.size()) + 1;
    if (const auto beat = parse_beat(line)) beats_.push_back(*beat);
  }
  return beats_;
}

Training HostJob::wait_for_world(int world, Instant after) { return wait_for(world, after, false); }
Training HostJob::wait_for_new_world(int world, Instant after) { return wait_for(world, after, true); }

Training HostJob::wait_for(int world, Instant after, bool is_new) {
  Training found;
  const auto look = [&] {
    for (auto& [host, node] : nodes_) node->mark();  // reads their output, so that no pipe fills up
    found = find_training(beats(), world, after, is_new);
    return found.round != 0;
  };
  if (eventually(look, kHostLimit)) return found;
  std::string words = "no world of " + std::to_string(world) + " trained in time";
  for (auto& [host, node] : nodes_) words += "\n" + Hosts::name(host) + ":\n" + node->out() + node->err();
  throw std::runtime_error(words);
}

Instant HostJob::last_beat(const std::string& host, int round_max) {
  Instant last;
  for (const Beat& beat : beats())
    if (beat.host == host && beat.round <= round_max) last = std::max(last, beat.when);
  return last;
}

Instant HostJob::first_beat(int round) {
  Instant first = Instant::max();
  for (const Beat& beat : beats())
    if (beat.round == round) first = std::min(first, beat.when);
  return first;
}

void HostJob::let_workers_end() const { folder.write("go", ""); }

void HostJob::all_end_well(const std::vector<int>& which) {
  let_workers_end();
  for (const int host : which) CHECK(nodes_.at(host)->wait_exit(kHostLimit) == exited(0));
}

std::vector<std::string> elastic_over_hosts(const std::string& nodes, const std::string& endpoint) {
  return {"--nnodes=" + nodes, "--rdzv-backend=c10d", "--rdzv-endpoint=" + endpoint, "--rdzv-id=job"};
}

std::vector<std::string> static_over_hosts(int nodes, const std::string& master) {
  return {"--nnodes=" + std::to_string(nodes), "--master-addr=" + master, "--master-port=29500"};
}

double milliseconds_between(Instant from, Instant to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

Training change(HostJob& job, const std::string& what, int world, std::chrono::milliseconds limit,
                const std::function<void()>& make) {
  INFO(what);
  const Instant before = std::chrono::steady_clock::now();
  make();
  const Training training = job.wait_for_new_world(world, before);
  tell_figure(what, milliseconds_between(before, training.since));
  CHECK(training.since - before <= limit);
  return training;
}

void tell_figure(const std::string& what, double milliseconds) {
  std::printf("measured: %s: %.0f ms\n", what.c_str(), milliseconds);
}

}  // namespace ddprun::test

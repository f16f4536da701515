// A job over test hosts whose workers (host_worker.cpp) record in a file when they train.
#pragma once

#include <chrono>
#include <functional>
#include <ios>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/command.h"
#include "tests/support/hosts.h"

namespace ddprun::test {

using Instant = std::chrono::steady_clock::time_point;

// One worker's record that it trains.
struct Beat {
  Instant when = {};
  int round = 0, rank = 0, world = 0;
  std::string host = {};
};

// A round in which all ranks trained.
struct Training {
  int round = 0;
  Instant since = {};                     // the first beat of the last of its ranks
  std::map<int, std::string> hosts = {};  // of each rank
};

class HostJob {
 public:
  // `options` of ddprun are the same on every host.
  HostJob(int hosts, std::vector<std::string> options);

  // Starts or restarts the host's node; its own options come after the job's.
  Command& start(int host, const std::vector<std::string>& own = {});
  // Starts any other command as the host's node, or on any host.
  Command& start_command(int host, const std::vector<std::string>& command);
  Command& operator[](int host) { return *nodes_.at(host); }  // the last one started there

  pid_t agent(int host);
  pid_t worker(int host);    // the process of its only rank
  void kill_node(int host);  // like a power cut: keeper, agent and workers at once

  const std::vector<Beat>& beats();  // so far
  // Waits for a round of `world` ranks in which all have trained after that instant.
  Training wait_for_world(int world, Instant after = {});
  // The same for a new round: no rank trained in it before that instant.
  Training wait_for_new_world(int world, Instant after);
  // The last beat of that host's workers in the rounds up to this one.
  Instant last_beat(const std::string& host, int round_max);
  Instant first_beat(int round);
  // Lets the workers exit, and expects the nodes started last to exit with 0.
  void let_workers_end() const;
  void all_end_well(const std::vector<int>& hosts);

  Hosts hosts;
  TempFolder folder;  // of all hosts

 private:
  Training wait_for(int world, Instant after, bool is_new);

  std::vector<std::string> options_;
  std::map<int, std::unique_ptr<Command>> nodes_;
  std::vector<std::unique_ptr<Command>> earlier_;
  std::vector<Beat> beats_;
  std::streamoff beats_read_ = 0;  // bytes of their file
};

// The options with which `nodes` ("2:3") meet at an endpoint ("host0:29400", or several), as an elastic or static job.
std::vector<std::string> elastic_over_hosts(const std::string& nodes, const std::string& endpoint = "host0:29400");
std::vector<std::string> static_over_hosts(int nodes, const std::string& master = "host0");

double milliseconds_between(Instant from, Instant to);
// Makes the change, and returns the training of the resulting world, within the limit.
Training change(HostJob& job, const std::string& what, int world, std::chrono::milliseconds limit,
                const std::function<void()>& make);
// Prints what a test measured, for runs with visible output.
void tell_figure(const std::string& what, double milliseconds);

}  // namespace ddprun::test

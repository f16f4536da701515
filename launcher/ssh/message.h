// What the head of a job and the nodes on its hosts tell each other, over the pipes of ssh. Pure.
//
// A node's first line is its greeting; a host's shell may print before it. Then frames (rendezvous/peer/frame.h)
// follow, each a letter and its content: MessagePack, or the bytes of an output. A frame that cannot be read is no
// message.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "agent/logs/job_end.h"

namespace ddprun::launcher {

constexpr std::size_t kNoiseMax = std::size_t{256} * 1024;  // of a host's shell before the greeting

struct Greeting {
  std::string version = {};
  std::string path = {};  // of the ddprun that runs there
};
std::string to_line(const Greeting& greeting);

// Finds the greeting in the first bytes of a node, and drops what stands before it.
class GreetingReader {
 public:
  void add(std::string_view bytes);
  const std::optional<Greeting>& greeting() const { return greeting_; }
  bool too_much() const { return !greeting_ && bytes_.size() > kNoiseMax; }
  std::string take_rest() { return std::move(bytes_); }  // the bytes behind it

 private:
  std::string bytes_;
  std::optional<Greeting> greeting_;
};

// A host of the job, as the nodes know it.
struct JobHost {
  int index = 0;  // in the order of the list
  std::string name = {};
  std::optional<int> workers = {};
  bool operator==(const JobHost&) const = default;
};

// Down: what to run. The first of `hosts` is the one that gets it, and it starts the others.
struct HostJobOrder {
  std::vector<JobHost> hosts = {};
  std::string ddprun = {};  // the head's own path
  std::vector<std::string> ssh = {};
  int fan_out = 1;
  std::string folder = {};                              // to work in
  std::map<std::string, std::string> environment = {};  // further variables of the agents
  std::string token = {};                               // empty: none
  std::string config_name = {}, config_text = {};       // of --config; no name: none
  std::vector<std::string> options = {};                // of ddprun, the same on all hosts
  std::vector<std::string> program = {};
  int stop_grace_ms = 0;
  bool shares_output = false;  // several hosts write to the same place
  bool sends_events = false;   // to the head, which writes them to the file
  bool operator==(const HostJobOrder&) const = default;
};

// Down: all are ready.
struct StartAgents {
  std::map<int, int> ranks = {};          // node ranks by index; hosts that are not here take no part
  std::vector<std::string> options = {};  // of all agents: --nnodes and where they meet
  bool operator==(const StartAgents&) const = default;
};
struct SendSignal {
  int signal = 0;
  bool operator==(const SendSignal&) const = default;
};
// Both ways, once a second.
struct StillHere {
  bool operator==(const StillHere&) const = default;
};

// Up: the host can run its part.
struct HostReady {
  int index = 0;
  std::string address = {};  // by which whoever started it reached it; empty: without a network
  std::string reached_from = {};
  int free_port = 0;
  bool operator==(const HostReady&) const = default;
};
// Up: it cannot, or cannot be reached.
struct HostRefused {
  int index = 0;
  std::string why = {};  // a sentence
  bool usage = false;    // what was asked for is wrong, and no further attempt helps
  bool operator==(const HostRefused&) const = default;
};
constexpr int kEventStream = 3;
struct HostOutput {
  int index = 0;
  int stream = 1;  // 1, 2 or kEventStream
  std::string bytes = {};
  bool operator==(const HostOutput&) const = default;
};
// Up: its agent has ended.
struct HostEnded {
  int index = 0;
  bool reported = false;  // the agent said how: else it was killed
  agent::JobEnd end = {};
};
// Up: the connection to it is gone; the host ends its agent by itself.
struct HostLost {
  int index = 0;
  std::string why = {};
  bool operator==(const HostLost&) const = default;
};

using DownMessage = std::variant<StillHere, HostJobOrder, StartAgents, SendSignal>;
using UpMessage = std::variant<StillHere, HostReady, HostRefused, HostOutput, HostEnded, HostLost>;

std::string encode(const DownMessage& message);  // without a frame
std::string encode(const UpMessage& message);
std::optional<DownMessage> decode_down(std::string_view frame);
std::optional<UpMessage> decode_up(std::string_view frame);

// Of an agent's end file; empty: it is none.
std::optional<agent::JobEnd> read_job_end(const std::string& json);

}  // namespace ddprun::launcher

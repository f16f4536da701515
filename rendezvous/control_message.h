// What agents and the coordinator say to each other, and how it is written: one JSON object a message.
// docs/control-protocol.md describes it for people.
//
// Pure. Whatever the bytes are, they become a message whose every value is in its range, or a BadMessage.
#pragma once
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>

#include "rendezvous/coordinator.h"
#include "rendezvous/round.h"

namespace ddprun {

constexpr int kControlProtocol = 1;

// What all agents of one job have in common. Its run id is in the greeting already.
struct Fingerprint {
  int protocol = kControlProtocol;
  std::string version;  // of ddprun
  std::string nodes;    // "2:4"
  std::string program;  // its file name

  friend bool operator==(const Fingerprint&, const Fingerprint&) = default;
};

// Why they cannot belong to one job, naming both sides' values; empty: they can.
std::string difference(const Fingerprint& coordinators, const Fingerprint& newcomers);

// The first message of an agent.
struct Hello {
  Fingerprint fingerprint;
  std::uint16_t control_port = 0;  // where this agent listens
};
// Any message is a sign of life; this one comes where there is no other, and is answered.
struct Heartbeat {
  std::uint64_t number = 0;
};
// What people are told of the worker that failed, by the agent that had it.
struct FailureWords {
  std::string text;
};
using FromAgent = std::variant<Hello, Heartbeat, FailureWords, NodeReady, NodeConfirmed, NodeRunning, NodeDone,
                               WorkerFailed, NodeLeaves, JobInterrupted, NodeBack>;

// The first message to an agent.
struct Welcome {
  std::string your_address;  // by which its connection reached us
  Duration lease = {};       // without a sign of the coordinator for so long, its workers have to be dead
};
struct HeartbeatAnswer {
  std::uint64_t number = 0;
  std::optional<Attendance> attendance = {};  // while nodes are waited for
};
struct TakeSeat {  // hold it, confirm
  Seat seat;
};
using ToAgent = std::variant<Welcome, HeartbeatAnswer, FailureWords, TakeSeat, StartRound, EndRound, EndJob>;

class BadMessage : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The node of a message to the coordinator is not written: the connection tells it.
std::string encode(const FromAgent& message);
std::string encode(const ToAgent& message);
// Throws BadMessage. `node`: whose connection it came by.
FromAgent decode_from_agent(std::string_view bytes, NodeId node);
ToAgent decode_to_agent(std::string_view bytes);

}  // namespace ddprun

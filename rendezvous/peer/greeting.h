// The first message on a connection between two agents, in both directions: the sender's name, job and role.
//
// A value and its encoding. The client greets first; the server answers if it accepts the greeting. With a token or
// certificates the greetings travel inside TLS, so a name is as trustworthy as the key. The instance detects a
// connection that somebody redirects back to ourselves: TLS alone would accept our own key as a member's.
//
// Bytes: "ddprun", version 1, 'S' or 'C' for the role, the instance (8 bytes, little-endian), then job and name, each
// after a byte for its length.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "rendezvous/peer/peer_role.h"

namespace ddprun::rendezvous {

constexpr std::size_t kGreetingTextMax = 255;

struct NodeIdentity {
  std::string name;            // for people; two nodes may have the same one
  std::string run_id;          // the job
  std::uint64_t instance = 0;  // unique to this agent
};

// With a new instance from the kernel's random numbers. Texts of more than kGreetingTextMax bytes are cut. Throws
// Error.
NodeIdentity make_identity(std::string_view name, std::string_view run_id);

struct Greeting {
  PeerRole role = PeerRole::server;
  NodeIdentity from = {};
};

std::string encode(const Greeting& greeting);

enum class GreetingState { complete, need_more, bad };
struct ParsedGreeting {
  GreetingState state = GreetingState::need_more;
  Greeting greeting = {};
  std::size_t size = 0;  // bytes it took
  std::string complaint = {};
};
ParsedGreeting parse_greeting(std::string_view bytes);
// Whether a connection that should begin with TLS begins with a greeting.
bool is_plain_greeting(std::string_view bytes);

// A server's answer to a client of another job: a greeting that names no job.
Greeting without_a_job();

// Why to reject the other side's greeting; empty: accept it. Contains nothing that the peer wrote.
std::string complaint_about(const Greeting& theirs, const Greeting& ours);

}  // namespace ddprun::rendezvous

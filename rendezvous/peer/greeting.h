// The first words on a connection between two agents, each way: who speaks, in which job, in which part.
//
// A value and its bytes. The client greets first; the server answers when it likes what it heard. With a token or
// certificates the greetings travel inside TLS, so a name is worth what the key is worth, and a connection that
// somebody leads back to ourselves is found by the instance: TLS alone would take our own key for a member's.
//
// Bytes: "ddprun", version 1, 'S' or 'C' for the part, the instance (8 bytes, little-endian), then job and name, each
// with a byte for its length before it.
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
  std::uint64_t instance = 0;  // of this very agent
};

// With an instance of its own, from the kernel's randomness. Texts of more than kGreetingTextMax bytes are cut. Throws
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

// What a server answers to another job's client, for whom it is no server of its own job either.
Greeting without_a_job();

// Why a greeting from the other side is not to be answered; empty: all is well. Holds nothing that the peer wrote.
std::string complaint_about(const Greeting& theirs, const Greeting& ours);

}  // namespace ddprun::rendezvous

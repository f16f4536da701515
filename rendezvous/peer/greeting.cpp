#include "rendezvous/peer/greeting.h"

#include <sys/random.h>

#include <algorithm>

#include "rendezvous/base/error.h"

namespace ddprun::rendezvous {
namespace {

constexpr std::string_view kProgramName = "ddprun";
constexpr char kVersion = 1;
constexpr char kServer = 'S', kClient = 'C';
constexpr std::size_t kInstanceBytes = 8;
constexpr char kTlsHandshake = 0x16;  // the first byte of every TLS connection

void append_text(std::string& to, std::string_view text) {
  check(text.size() <= kGreetingTextMax, "a greeting's texts are short");
  to += static_cast<char>(text.size());
  to += text;
}

ParsedGreeting bad(std::string complaint) { return {GreetingState::bad, {}, 0, std::move(complaint)}; }

// Takes fields off the front; sets `truncated` once one is incomplete.
struct Reader {
  std::string_view rest;
  bool truncated = false;

  std::string_view take(std::size_t size) {
    truncated = truncated || rest.size() < size;
    if (truncated) return {};
    const std::string_view field = rest.substr(0, size);
    rest.remove_prefix(size);
    return field;
  }
  unsigned char take_byte() {
    const std::string_view byte = take(1);
    return byte.empty() ? 0 : static_cast<unsigned char>(byte.front());
  }
  std::uint64_t take_number() {
    std::uint64_t number = 0;
    unsigned shift = 0;
    for (const char byte : take(kInstanceBytes)) {
      number |= static_cast<std::uint64_t>(static_cast<unsigned char>(byte)) << shift;
      shift += 8;
    }
    return number;
  }
  std::string take_text() { return std::string(take(take_byte())); }
};

// Tells likely mistakes apart by an unauthenticated peer's first bytes.
std::string complaint_about_start(std::string_view bytes) {
  if (bytes.starts_with(kTlsHandshake)) return "it uses a token or certificates, and this node has none";
  if (bytes.substr(0, kProgramName.size()) != kProgramName.substr(0, bytes.size())) return "it is not ddprun";
  if (bytes.size() > kProgramName.size() && bytes[kProgramName.size()] != kVersion)
    return "it is another version of ddprun";
  return {};
}

}  // namespace

NodeIdentity make_identity(std::string_view name, std::string_view run_id) {
  NodeIdentity identity{std::string(name.substr(0, kGreetingTextMax)), std::string(run_id.substr(0, kGreetingTextMax))};
  if (getrandom(&identity.instance, sizeof identity.instance, 0) != sizeof identity.instance)
    throw Error("cannot name this node", "the kernel has no random bytes");
  return identity;
}

std::string encode(const Greeting& greeting) {
  std::string bytes(kProgramName);
  bytes += kVersion;
  bytes += greeting.role == PeerRole::server ? kServer : kClient;
  for (unsigned shift = 0; shift < 8 * kInstanceBytes; shift += 8)
    bytes += static_cast<char>(greeting.from.instance >> shift);
  append_text(bytes, greeting.from.run_id);
  append_text(bytes, greeting.from.name);
  return bytes;
}

ParsedGreeting parse_greeting(std::string_view bytes) {
  if (std::string complaint = complaint_about_start(bytes); !complaint.empty()) return bad(std::move(complaint));
  Reader reader{bytes};
  reader.take(kProgramName.size() + 1);
  const char role = static_cast<char>(reader.take_byte());
  Greeting greeting{role == kServer ? PeerRole::server : PeerRole::client, {}};
  greeting.from.instance = reader.take_number();
  greeting.from.run_id = reader.take_text();
  greeting.from.name = reader.take_text();
  if (reader.truncated) return {};
  if (role != kServer && role != kClient) return bad("it is not ddprun");
  return {GreetingState::complete, std::move(greeting), bytes.size() - reader.rest.size(), {}};
}

bool is_plain_greeting(std::string_view bytes) { return bytes.starts_with(kProgramName); }

Greeting without_a_job() { return {PeerRole::server, {}}; }

std::string complaint_about(const Greeting& theirs, const Greeting& ours) {
  if (theirs.from.instance == ours.from.instance)
    return "it is this agent itself: its connection was redirected back to it";
  if (theirs.role == ours.role) return "it echoes this node's own greeting";
  if (theirs.from.run_id != ours.from.run_id) return "it belongs to another job (--rdzv-id)";
  return {};
}

}  // namespace ddprun::rendezvous

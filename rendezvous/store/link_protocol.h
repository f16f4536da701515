// The protocol between a node's store proxy and the store, over one connection: requests of many clients one way,
// replies the other. docs/internals/store-proxy.md describes it for people.
//
// Pure values; no socket, no clock. Integers are little-endian. Every request of a client has a *ticket*, a number that
// both sides count from 1. A request that several clients make at once is sent once and takes as many tickets as it has
// requesters. Replies name their tickets; equal replies to consecutive tickets are sent as one.
//   request   'A', u32 requesters, the request as on the store's own wire (protocol.h)
//             'F', u64 ticket: the wait with this ticket is cancelled
//   reply     a kind, u64 first ticket, u32 tickets, u64 size, that many bytes as on the store's own wire
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "rendezvous/store/protocol.h"
#include "rendezvous/store/request_parser.h"

namespace ddprun::rendezvous {

using Ticket = std::uint64_t;
constexpr Ticket kTicketMax = (Ticket{1} << 48) - 1;  // a store's server keeps the link's number in the bits above
constexpr std::uint32_t kRequestersMax = 65'536;      // the clients that one proxy can have
// A larger reply ends its clients' connections. APPEND can make a value of any size.
constexpr std::uint64_t kLinkReplyBytesMax = 1 << 30;

// Whether clients with the same request may share one: waits and reads.
bool can_be_shared(Op op);
// Whether a reply comes, at once or at the end of a wait.
bool is_answered(Op op);

struct LinkClientRequest {
  std::uint32_t requesters = 1;  // 1 if the request cannot be shared
  Request request = {};
};
struct LinkCancelWait {
  Ticket ticket = 0;
};
using LinkRequest = std::variant<LinkClientRequest, LinkCancelWait>;

// The bytes before `request`, which encode() gives.
std::string encode_request_head(std::uint32_t requesters);
std::string encode(const LinkCancelWait& cancel);

class LinkRequestReader {
 public:
  LinkRequestReader();
  // As RequestParser does.
  Parsed feed(std::string_view& bytes);
  LinkRequest take();
  std::size_t held_bytes() const { return parser_.held_bytes(); }

 private:
  bool fill_head(std::string_view& bytes);
  Parsed end_head();

  std::string head_;
  bool in_request_ = false;
  LinkRequest found_ = {};
  RequestParser parser_;
};

enum class LinkReplyKind : std::uint8_t {
  answer = 'a',
  parked = 'p',     // the client waits; the answer comes later
  close = 'h',      // the client broke the protocol: its connection ends
  cancelled = 'f',  // the wait was cancelled and will not be answered
};

struct LinkReplyHead {
  LinkReplyKind kind = LinkReplyKind::answer;
  Ticket first = 0;
  std::uint32_t tickets = 1;
  std::uint64_t size = 0;  // of an answer; else 0
  friend bool operator==(const LinkReplyHead&, const LinkReplyHead&) = default;
};
std::string encode(const LinkReplyHead& head);
// Bytes of an answer on the wire. Not for CloseConnection.
std::uint64_t wire_size(const Reply& reply);

// A reply, or the part of it that has arrived: its bytes are passed on without waiting for the rest.
struct LinkReplyPart {
  LinkReplyHead head;
  std::string_view bytes;  // part of the bytes that were fed
  bool last = false;
};

class LinkReplyReader {
 public:
  // Removes from the front of `bytes` what it used.
  std::optional<LinkReplyPart> next(std::string_view& bytes);
  // The following bytes have no meaning.
  bool bad() const { return bad_; }

 private:
  bool fill_head(std::string_view& bytes);

  std::string head_bytes_;
  std::optional<LinkReplyHead> head_;
  std::uint64_t left_ = 0;
  bool bad_ = false;
};

}  // namespace ddprun::rendezvous

// A store link's bytes read in pieces and written again: what tests and fuzzers of its protocol compare.
#pragma once
#include <array>
#include <string>
#include <string_view>

#include "rendezvous/store/link_protocol.h"
#include "rendezvous/store/output_queue.h"
#include "rendezvous/store/protocol.h"

namespace ddprun::test {

inline std::string written_again(const rendezvous::LinkRequest& request) {
  if (const auto* cancel = std::get_if<rendezvous::LinkCancelWait>(&request)) return encode(*cancel);
  const auto& client_request = std::get<rendezvous::LinkClientRequest>(request);
  return rendezvous::encode_request_head(client_request.requesters) + encode(client_request.request);
}

// Until the bytes end or turn bad, fed in pieces of at most `step`.
struct WrittenAgain {
  std::string bytes = {};
  bool bad = false;
};
inline WrittenAgain requests_in(std::string_view all, std::size_t step) {
  rendezvous::LinkRequestReader reader;
  WrittenAgain found;
  while (!all.empty()) {
    std::string_view piece = all.substr(0, step);
    all.remove_prefix(piece.size());
    while (!piece.empty()) {
      const rendezvous::Parsed parsed = reader.feed(piece);
      if (parsed == rendezvous::Parsed::bad) return {found.bytes, true};
      if (parsed == rendezvous::Parsed::need_more) break;
      found.bytes += written_again(reader.take());
    }
  }
  return found;
}

inline std::string bytes_of(const rendezvous::Reply& reply) {
  rendezvous::OutputQueue queue;
  queue.append(reply);
  std::string out;
  while (!queue.empty()) {
    std::array<iovec, 1> piece;
    queue.next(piece);
    const std::string_view bytes(static_cast<const char*>(piece[0].iov_base), piece[0].iov_len);
    out += bytes;
    queue.consume(bytes.size());
  }
  return out;
}

}  // namespace ddprun::test

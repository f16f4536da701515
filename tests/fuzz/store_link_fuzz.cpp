#include "rendezvous/store/link_protocol.h"
#include "rendezvous/store/proxy/request_merger.h"
#include "tests/fuzz/fuzz.h"
#include "tests/rendezvous/store/link_streams.h"

using namespace ddprun;
using namespace ddprun::rendezvous;
using namespace ddprun::fuzz;
using namespace ddprun::test;

namespace {

// Replies, as they are written, the last one perhaps half. A proxy with some clients gets them all.
std::string replies_in(std::string_view all, std::size_t step) {
  RequestMerger merger;
  for (ClientId client = 1; client <= 5; ++client) merger.submit(client, {Op::wait, {std::to_string(client / 2)}});
  merger.take_batch();
  LinkReplyReader reader;
  std::string found;
  bool begins = true;
  while (!all.empty() && !reader.bad()) {
    std::string_view piece = all.substr(0, step);
    all.remove_prefix(piece.size());
    while (const auto part = reader.next(piece)) {
      if (begins) found += encode(part->head);
      found += part->bytes;
      begins = part->last;
      const auto receivers = merger.on(*part);
      promise(receivers.known == (part->head.first + part->head.tickets - 1 <= 5), "tickets that were given are known");
      promise(receivers.of_bytes.size() <= 5 && merger.unanswered() <= 5, "nobody is answered for another one");
    }
  }
  return found;
}

}  // namespace

DDPRUN_FUZZER(store_link) {
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const std::string requests = requests_in(all, all.size()).bytes, replies = replies_in(all, all.size());
  promise(requests == requests_in(all, 1).bytes && replies == replies_in(all, 1),
          "how the bytes are cut changes nothing");
  promise(all.starts_with(requests) && all.starts_with(replies), "what was read was written so");
  return 0;
}

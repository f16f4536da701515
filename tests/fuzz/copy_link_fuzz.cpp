#include "agent/copies/copy_protocol.h"
#include "tests/fuzz/fuzz.h"

using namespace ddprun;
using namespace ddprun::agent;
using namespace ddprun::fuzz;

namespace {

// What is in the bytes, as it is written, without how contents were cut into chunks.
std::string parts_in(std::string_view all, std::size_t step) {
  CopyReader reader;
  std::string found;
  std::uint64_t left = 0;
  while (!all.empty() && !reader.bad()) {
    std::string_view piece = all.substr(0, step);
    all.remove_prefix(piece.size());
    while (const auto part = reader.next(piece)) {
      if (part->kind == CopyPart::Kind::head) {
        found += encode(part->head);
        left = part->head.bytes;
      }
      promise(part->bytes.size() <= left, "a snapshot is no larger than its head says");
      left -= part->bytes.size();
      found += part->bytes;
      promise(part->kind != CopyPart::Kind::whole || left == 0, "a whole snapshot is as large as its head says");
      if (part->kind == CopyPart::Kind::whole) found += encode_end(true);
      if (part->kind == CopyPart::Kind::given_up) found += encode_end(false);
    }
  }
  return found;
}

}  // namespace

DDPRUN_FUZZER(copy_link) {
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  promise(parts_in(all, all.size()) == parts_in(all, 1), "how the bytes are cut changes nothing");
  return 0;
}

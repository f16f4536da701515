#include "agent/copies/copy_protocol.h"

#include "tests/support/test.h"

namespace {

using Kind = CopyPart::Kind;

const CopyLabel kLabel{3, 41, 5, 8};

std::string encode_chunk(const std::string& bytes) {
  return encode_chunk_head(static_cast<std::uint32_t>(bytes.size())) + bytes;
}

// "head", "content" with its bytes, "whole" or "given up", in pieces of that size.
std::vector<std::string> parts_of(std::string_view all, std::size_t piece, bool& bad) {
  CopyReader reader;
  std::vector<std::string> out;
  while (!all.empty() && !reader.bad()) {
    std::string_view bytes = all.substr(0, piece);
    all.remove_prefix(bytes.size());
    while (const auto part = reader.next(bytes)) {
      if (part->kind == Kind::content && !out.empty() && out.back().starts_with("content"))
        out.back() += part->bytes;
      else if (part->kind == Kind::content)
        out.push_back("content " + std::string(part->bytes));
      else
        out.push_back(part->kind == Kind::head ? "head" : part->kind == Kind::whole ? "whole" : "given up");
    }
  }
  bad = reader.bad();
  return out;
}

CopyHead snapshot(std::uint64_t bytes) { return {CopyKind::snapshot, 4, kLabel, bytes, 1}; }

}  // namespace

TEST_CASE("heads, contents and ends arrive however they are cut", "[copies]") {
  const std::string all = encode(CopyHead{CopyKind::want, 4, kLabel}) + encode(snapshot(9)) + encode_chunk("snap") +
                          encode_chunk("shots") + encode_end(true) + encode(snapshot(0)) + encode_end(true) +
                          encode(snapshot(5)) + encode_chunk("ab") + encode_end(false) +
                          encode(CopyHead{CopyKind::arrived, 4, kLabel});
  const std::vector<std::string> expected{"head",  "head", "content snapshots", "whole",    "head",
                                          "whole", "head", "content ab",        "given up", "head"};
  for (const std::size_t piece : {std::size_t{1}, std::size_t{3}, std::size_t{7}, all.size()}) {
    bool bad = false;
    CHECK(parts_of(all, piece, bad) == expected);
    CHECK_FALSE(bad);
  }
}

TEST_CASE("a head arrives as it was written", "[copies]") {
  const std::string bytes = encode(snapshot(1 << 20));
  std::string_view left = bytes;
  CopyReader reader;
  const auto part = reader.next(left);
  REQUIRE(part);
  CHECK(part->head == snapshot(1 << 20));
  CHECK(left.empty());
}

TEST_CASE("bytes that no agent sends are bad", "[copies]") {
  const auto is_bad = [](const std::string& bytes) {
    bool bad = false;
    parts_of(bytes, bytes.size(), bad);
    return bad;
  };
  CHECK(is_bad(encode(CopyHead{static_cast<CopyKind>('x'), 4, kLabel})));
  CHECK(is_bad(encode(CopyHead{CopyKind::want, 4, {3, 41, 8, 8}})));  // no such rank
  CHECK(is_bad(encode(CopyHead{CopyKind::want, 4, kLabel, 1})));      // only a snapshot has bytes
  CHECK(is_bad(encode(CopyHead{CopyKind::want, std::uint64_t{1} << 31, kLabel})));
  CHECK(is_bad(encode(CopyHead{CopyKind::snapshot, 4, kLabel, 1, 1 << 17})));
  CHECK(is_bad(encode(snapshot(std::uint64_t{1} << 45))));
  CHECK(is_bad(encode(snapshot(3)) + encode_chunk("four")));                   // more than it has
  CHECK(is_bad(encode(snapshot(3)) + encode_chunk("ab") + encode_end(true)));  // less
  CHECK(is_bad(encode(snapshot(1 << 20)) + encode_chunk(std::string(kCopyChunkMax + 1, 'x'))));
}

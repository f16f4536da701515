#include "agent/copies/copy_protocol.h"

#include <algorithm>

#include "rendezvous/base/byte_fields.h"

namespace ddprun::agent {
namespace {

constexpr std::size_t kHeadBytes = 1 + 6 * 8 + 4;
constexpr std::uint64_t kRoundMax = 1 << 30, kRanksMax = 1 << 28, kBytesMax = std::uint64_t{1} << 44;
constexpr std::uint32_t kPlacesMax = 1 << 16;

bool is_kind(CopyKind kind) {
  return kind == CopyKind::snapshot || kind == CopyKind::want || kind == CopyKind::none || kind == CopyKind::arrived ||
         kind == CopyKind::refused;
}

bool is_valid(const CopyHead& head) {
  const bool is_snapshot = head.kind == CopyKind::snapshot;
  return is_kind(head.kind) && head.round <= kRoundMax && head.label.round <= kRoundMax &&
         head.label.world_size <= kRanksMax && head.label.rank < head.label.world_size &&
         head.bytes <= (is_snapshot ? kBytesMax : 0) && head.place <= (is_snapshot ? kPlacesMax : 0);
}

CopyHead head_of(std::string_view bytes) {
  const auto number = [&](std::size_t i) { return number_at<std::uint64_t>(bytes, 1 + 8 * i); };
  return {static_cast<CopyKind>(bytes[0]),
          number(0),
          {number(1), number(2), number(3), number(4)},
          number(5),
          number_at<std::uint32_t>(bytes, 1 + 8 * 6)};
}

}  // namespace

std::string encode(const CopyHead& head) {
  std::string out(1, static_cast<char>(head.kind));
  const CopyLabel& label = head.label;
  for (const std::uint64_t number : {head.round, label.round, label.step, label.rank, label.world_size, head.bytes})
    put_number(out, number);
  put_number(out, head.place);
  return out;
}

std::string encode_chunk_head(std::uint32_t size) {
  std::string out;
  put_number(out, size);
  return out;
}

std::string encode_end(bool whole) {
  std::string out;
  put_number(out, whole ? std::uint32_t{0} : kGivenUp);
  return out;
}

std::optional<CopyPart> CopyReader::next(std::string_view& bytes) {
  if (bad_ || bytes.empty()) return {};
  return head_ ? take_chunk(bytes) : take_head(bytes);
}

std::optional<CopyPart> CopyReader::take_head(std::string_view& bytes) {
  if (!fill(fixed_, kHeadBytes, bytes)) return {};
  const CopyHead head = head_of(fixed_);
  fixed_.clear();
  bad_ = !is_valid(head);
  if (bad_) return {};
  if (head.kind == CopyKind::snapshot) head_ = head;
  left_ = head.bytes;
  return CopyPart{CopyPart::Kind::head, head};
}

std::optional<CopyPart> CopyReader::take_chunk(std::string_view& bytes) {
  if (chunk_left_ == 0) {
    if (!fill(fixed_, sizeof(std::uint32_t), bytes)) return {};
    const auto size = number_at<std::uint32_t>(fixed_, 0);
    fixed_.clear();
    if (size == 0 || size == kGivenUp || size > std::min<std::uint64_t>(left_, kCopyChunkMax)) return end_of(size);
    chunk_left_ = size;
    if (bytes.empty()) return {};
  }
  const std::size_t n = std::min<std::size_t>(chunk_left_, bytes.size());
  const CopyPart part{CopyPart::Kind::content, *head_, bytes.substr(0, n)};
  bytes.remove_prefix(n);
  chunk_left_ -= static_cast<std::uint32_t>(n);
  left_ -= n;
  return part;
}

// A size that is no chunk's: the end, or a mistake.
std::optional<CopyPart> CopyReader::end_of(std::uint32_t size) {
  if (size == kGivenUp) return end(CopyPart::Kind::given_up);
  if (size == 0 && left_ == 0) return end(CopyPart::Kind::whole);
  bad_ = true;
  return {};
}

std::optional<CopyPart> CopyReader::end(CopyPart::Kind kind) {
  const CopyPart part{kind, *head_};
  head_.reset();
  return part;
}

}  // namespace ddprun::agent

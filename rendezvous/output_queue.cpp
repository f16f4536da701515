#include "rendezvous/output_queue.h"

#include <algorithm>

#include "rendezvous/overloaded.h"

namespace ddprun {
namespace {

constexpr std::size_t kSharedFrom = 16 << 10;  // below, a copy is cheaper than one more piece
constexpr std::size_t kOwnBytesMax = 64 << 10;
constexpr std::size_t kPiecesPerWrite = 64;  // what Asio hands to one sendmsg

}  // namespace

void OutputQueue::append(const Reply& reply) {
  std::visit(overloaded{
                 [&](Flag flag) { append_number(static_cast<std::uint8_t>(flag), 1); },
                 [&](const Number& number) { append_number(static_cast<std::uint64_t>(number.value), 8); },
                 [&](const Nonce& nonce) { append_number(nonce.value, 4); },
                 [&](const Values& values) { append_values(values); },
                 [](const Hangup&) {},
             },
             reply);
}

std::vector<std::string_view> OutputQueue::next() const {
  std::vector<std::string_view> views;
  const std::size_t count = std::min(pieces_.size(), kPiecesPerWrite);
  views.reserve(count);
  for (std::size_t i = 0; i < count; ++i) views.push_back(pieces_[i].bytes().substr(i == 0 ? written_ : 0));
  return views;
}

void OutputQueue::consume(std::size_t count) {
  size_ -= count;
  for (written_ += count; !pieces_.empty() && written_ >= pieces_.front().bytes().size(); pieces_.pop_front())
    written_ -= pieces_.front().bytes().size();
}

void OutputQueue::append_values(const Values& values) {
  if (values.count) append_number(static_cast<std::uint64_t>(*values.count), 8);
  for (const Value& value : values.values) append_value(value);
}

void OutputQueue::append_value(const Value& value) {
  append_number(value->size(), 8);
  if (value->size() < kSharedFrom) return append_bytes(*value);
  pieces_.push_back({{}, value});
  size_ += value->size();
}

void OutputQueue::append_number(std::uint64_t number, std::size_t size) {
  append_bytes({reinterpret_cast<const char*>(&number), size});
}

void OutputQueue::append_bytes(std::string_view bytes) {
  if (pieces_.empty() || pieces_.back().shared || pieces_.back().own.size() >= kOwnBytesMax) pieces_.emplace_back();
  pieces_.back().own.append(bytes);
  size_ += bytes.size();
}

}  // namespace ddprun

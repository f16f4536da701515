#include "rendezvous/store/output_queue.h"

#include "rendezvous/base/overloaded.h"

namespace ddprun::rendezvous {
namespace {

constexpr std::size_t kOwnBytesMax = 64 << 10;
constexpr std::size_t kKeptBytesMax = 256;  // gloo's addresses and NCCL's ids fit

}  // namespace

void OutputQueue::append(const Reply& reply) {
  std::visit(overloaded{
                 [&](Flag flag) { append_number(static_cast<std::uint8_t>(flag), 1); },
                 [&](const Number& number) { append_number(static_cast<std::uint64_t>(number.value), 8); },
                 [&](const Nonce& nonce) { append_number(nonce.value, 4); },
                 [&](const Values& values) { append_values(values); },
                 [](const CloseConnection&) {},
             },
             reply);
}

std::size_t OutputQueue::next(std::span<iovec> pieces) const {
  if (empty() || pieces.empty()) return 0;
  const auto put = [](std::string_view bytes) { return iovec{const_cast<char*>(bytes.data()), bytes.size()}; };
  pieces[0] = put(first_.bytes().substr(written_));
  std::size_t count = 1;
  for (auto piece = later_.begin(); piece != later_.end() && count < pieces.size(); ++piece)
    pieces[count++] = put(piece->bytes());
  return count;
}

void OutputQueue::consume(std::size_t count) {
  size_ -= count;
  written_ += count;
  while (written_ > 0 && written_ >= first_.bytes().size()) drop_first();
}

void OutputQueue::drop_first() {
  written_ -= first_.bytes().size();
  own_bytes_ -= first_.own.size();
  if (!later_.empty()) {
    first_ = std::move(later_.front());
    later_.pop_front();
  } else if (!first_.shared && first_.own.capacity() <= kKeptBytesMax) {
    first_.own.clear();
  } else {
    first_ = {};
  }
}

void OutputQueue::append_values(const Values& values) {
  if (values.count) append_number(static_cast<std::uint64_t>(*values.count), 8);
  for (const Value& value : values.values) append_value(value);
}

void OutputQueue::append_value(const Value& value) {
  append_number(value->size(), 8);
  append_bytes(value);
}

void OutputQueue::append_bytes(const Value& bytes) {
  if (bytes->size() < kSharedFrom) return append_bytes(std::string_view(*bytes));
  if (empty())
    first_ = {{}, bytes};
  else
    later_.push_back({{}, bytes});
  size_ += bytes->size();
}

void OutputQueue::append_number(std::uint64_t number, std::size_t size) {
  append_bytes({reinterpret_cast<const char*>(&number), size});
}

void OutputQueue::append_bytes(std::string_view bytes) {
  if (bytes.empty()) return;
  if (last().shared || last().own.size() >= kOwnBytesMax) later_.emplace_back();
  last().own.append(bytes);
  size_ += bytes.size();
  own_bytes_ += bytes.size();
}

}  // namespace ddprun::rendezvous

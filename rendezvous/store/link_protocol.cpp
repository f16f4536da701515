#include "rendezvous/store/link_protocol.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "rendezvous/base/overloaded.h"

namespace ddprun::rendezvous {
namespace {

constexpr char kAsk = 'A', kForget = 'F';
constexpr std::size_t kAskHeadBytes = 1 + 4, kForgetBytes = 1 + 8, kReplyHeadBytes = 1 + 8 + 4 + 8;

template <class Number>
void put(std::string& out, Number number) {
  out.append(reinterpret_cast<const char*>(&number), sizeof number);
}

template <class Number>
Number get(std::string_view bytes, std::size_t at) {
  Number number = 0;
  std::memcpy(&number, bytes.data() + at, sizeof number);
  return number;
}

// True once `to` has `size` bytes.
bool fill(std::string& to, std::size_t size, std::string_view& bytes) {
  const std::size_t n = std::min(size - to.size(), bytes.size());
  to.append(bytes.substr(0, n));
  bytes.remove_prefix(n);
  return to.size() == size;
}

bool are_tickets(Ticket first, std::uint64_t count) {
  return first >= 1 && count >= 1 && count <= kAskersMax && first + count - 1 <= kTicketMax;
}

bool is_kind(LinkReplyKind kind) {
  return kind == LinkReplyKind::answer || kind == LinkReplyKind::parked || kind == LinkReplyKind::hangup ||
         kind == LinkReplyKind::forgotten;
}

bool is_good(const LinkReplyHead& head) {
  return is_kind(head.kind) && are_tickets(head.first, head.tickets) &&
         head.size <= (head.kind == LinkReplyKind::answer ? kLinkReplyBytesMax : 0);
}

}  // namespace

bool can_be_shared(Op op) {
  return op == Op::get || op == Op::multi_get || op == Op::check || op == Op::wait || op == Op::queue_len;
}

bool is_answered(Op op) {
  return op != Op::validate && op != Op::set && op != Op::append && op != Op::multi_set && op != Op::queue_push;
}

std::string encode_ask_head(std::uint32_t askers) {
  std::string out(1, kAsk);
  put(out, askers);
  return out;
}

std::string encode(const LinkForget& forget) {
  std::string out(1, kForget);
  put(out, forget.ticket);
  return out;
}

// The proxy has validated its clients.
LinkRequestReader::LinkRequestReader() {
  const std::string validate = encode(Request{Op::validate, {}, {}, kMagic});
  std::string_view bytes = validate;
  parser_.feed(bytes);
}

Parsed LinkRequestReader::feed(std::string_view& bytes) {
  if (!in_request_) {
    if (bytes.empty()) return Parsed::need_more;
    if (!fill_head(bytes)) return head_[0] == kAsk || head_[0] == kForget ? Parsed::need_more : Parsed::bad;
    const Parsed parsed = end_head();
    if (!in_request_) return parsed;
  }
  auto& ask = std::get<LinkAsk>(found_);
  const Parsed parsed = parser_.feed(bytes);
  if (parsed != Parsed::complete) return parsed;
  in_request_ = false;
  ask.request = parser_.take();
  return ask.askers > 1 && !can_be_shared(ask.request.op) ? Parsed::bad : Parsed::complete;
}

bool LinkRequestReader::fill_head(std::string_view& bytes) {
  if (head_.empty() && !fill(head_, 1, bytes)) return false;
  if (head_[0] == kAsk) return fill(head_, kAskHeadBytes, bytes);
  return head_[0] == kForget && fill(head_, kForgetBytes, bytes);
}

Parsed LinkRequestReader::end_head() {
  const std::string head = std::exchange(head_, {});
  if (head[0] == kForget) {
    const LinkForget forget{get<Ticket>(head, 1)};
    found_ = forget;
    return are_tickets(forget.ticket, 1) ? Parsed::complete : Parsed::bad;
  }
  const LinkAsk ask{get<std::uint32_t>(head, 1), {}};
  in_request_ = are_tickets(1, ask.askers);
  found_ = ask;
  return Parsed::bad;  // used only if no request follows
}

LinkRequest LinkRequestReader::take() { return std::move(found_); }

std::string encode(const LinkReplyHead& head) {
  std::string out(1, static_cast<char>(head.kind));
  out.reserve(kReplyHeadBytes);
  put(out, head.first);
  put(out, head.tickets);
  put(out, head.size);
  return out;
}

std::uint64_t wire_size(const Reply& reply) {
  return std::visit(overloaded{
                        [](Flag) -> std::uint64_t { return 1; },
                        [](const Number&) -> std::uint64_t { return 8; },
                        [](const Nonce&) -> std::uint64_t { return 4; },
                        [](const Values& values) {
                          std::uint64_t size = values.count ? 8 : 0;
                          for (const Value& value : values.values) size += 8 + value->size();
                          return size;
                        },
                        [](const Hangup&) -> std::uint64_t { return 0; },
                    },
                    reply);
}

std::optional<LinkReplyPart> LinkReplyReader::next(std::string_view& bytes) {
  if (bad_) return {};
  if (!head_) {
    if (!fill_head(bytes)) return {};
    if (head_->size == 0) return LinkReplyPart{*std::exchange(head_, {}), {}, true};
  }
  if (bytes.empty()) return {};
  const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(left_, bytes.size()));
  LinkReplyPart part{*head_, bytes.substr(0, count), count == left_};
  bytes.remove_prefix(count);
  left_ -= count;
  if (part.last) head_.reset();
  return part;
}

bool LinkReplyReader::fill_head(std::string_view& bytes) {
  if (!fill(head_bytes_, kReplyHeadBytes, bytes)) return false;
  const LinkReplyHead head{static_cast<LinkReplyKind>(head_bytes_[0]), get<Ticket>(head_bytes_, 1),
                           get<std::uint32_t>(head_bytes_, 9), get<std::uint64_t>(head_bytes_, 13)};
  head_bytes_.clear();
  bad_ = !is_good(head);
  if (bad_) return false;
  head_ = head;
  left_ = head.size;
  return true;
}

}  // namespace ddprun::rendezvous

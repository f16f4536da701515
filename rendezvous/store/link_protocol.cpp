#include "rendezvous/store/link_protocol.h"

#include <utility>

#include "rendezvous/base/byte_fields.h"
#include "rendezvous/base/overloaded.h"

namespace ddprun::rendezvous {
namespace {

constexpr char kRequest = 'A', kCancelWait = 'F';
constexpr std::size_t kRequestHeadBytes = 1 + 4, kCancelWaitBytes = 1 + 8, kReplyHeadBytes = 1 + 8 + 4 + 8;

bool are_valid_tickets(Ticket first, std::uint64_t count) {
  return first >= 1 && count >= 1 && count <= kRequestersMax && first + count - 1 <= kTicketMax;
}

bool is_kind(LinkReplyKind kind) {
  return kind == LinkReplyKind::answer || kind == LinkReplyKind::parked || kind == LinkReplyKind::close ||
         kind == LinkReplyKind::cancelled;
}

bool is_valid(const LinkReplyHead& head) {
  return is_kind(head.kind) && are_valid_tickets(head.first, head.tickets) &&
         head.size <= (head.kind == LinkReplyKind::answer ? kLinkReplyBytesMax : 0);
}

}  // namespace

bool can_be_shared(Op op) {
  return op == Op::get || op == Op::multi_get || op == Op::check || op == Op::wait || op == Op::queue_len;
}

bool is_answered(Op op) {
  return op != Op::validate && op != Op::set && op != Op::append && op != Op::multi_set && op != Op::queue_push;
}

std::string encode_request_head(std::uint32_t requesters) {
  std::string out(1, kRequest);
  put_number(out, requesters);
  return out;
}

std::string encode(const LinkCancelWait& cancel) {
  std::string out(1, kCancelWait);
  put_number(out, cancel.ticket);
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
    if (!fill_head(bytes)) return head_[0] == kRequest || head_[0] == kCancelWait ? Parsed::need_more : Parsed::bad;
    const Parsed parsed = end_head();
    if (!in_request_) return parsed;
  }
  auto& client_request = std::get<LinkClientRequest>(found_);
  const Parsed parsed = parser_.feed(bytes);
  if (parsed != Parsed::complete) return parsed;
  in_request_ = false;
  client_request.request = parser_.take();
  return client_request.requesters > 1 && !can_be_shared(client_request.request.op) ? Parsed::bad : Parsed::complete;
}

bool LinkRequestReader::fill_head(std::string_view& bytes) {
  if (head_.empty() && !fill(head_, 1, bytes)) return false;
  if (head_[0] == kRequest) return fill(head_, kRequestHeadBytes, bytes);
  return head_[0] == kCancelWait && fill(head_, kCancelWaitBytes, bytes);
}

Parsed LinkRequestReader::end_head() {
  const std::string head = std::exchange(head_, {});
  if (head[0] == kCancelWait) {
    const LinkCancelWait cancel{number_at<Ticket>(head, 1)};
    found_ = cancel;
    return are_valid_tickets(cancel.ticket, 1) ? Parsed::complete : Parsed::bad;
  }
  const LinkClientRequest client_request{number_at<std::uint32_t>(head, 1), {}};
  in_request_ = are_valid_tickets(1, client_request.requesters);
  found_ = client_request;
  return Parsed::bad;  // used only if no request follows
}

LinkRequest LinkRequestReader::take() { return std::move(found_); }

std::string encode(const LinkReplyHead& head) {
  std::string out(1, static_cast<char>(head.kind));
  out.reserve(kReplyHeadBytes);
  put_number(out, head.first);
  put_number(out, head.tickets);
  put_number(out, head.size);
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
                        [](const CloseConnection&) -> std::uint64_t { return 0; },
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
  const LinkReplyHead head{static_cast<LinkReplyKind>(head_bytes_[0]), number_at<Ticket>(head_bytes_, 1),
                           number_at<std::uint32_t>(head_bytes_, 9), number_at<std::uint64_t>(head_bytes_, 13)};
  head_bytes_.clear();
  bad_ = !is_valid(head);
  if (bad_) return false;
  head_ = head;
  left_ = head.size;
  return true;
}

}  // namespace ddprun::rendezvous

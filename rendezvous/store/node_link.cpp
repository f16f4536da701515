#include "rendezvous/store/node_link.h"

#include <sys/epoll.h>

#include <utility>

#include "rendezvous/base/overloaded.h"

namespace ddprun::rendezvous {
namespace {

bool follows(const LinkReplyHead& next, const LinkReplyHead& last) {
  return next.kind == last.kind && next.first == last.first + last.tickets && next.tickets <= kAskersMax - last.tickets;
}

}  // namespace

NodeLink::NodeLink(ReleasedPeer peer, const ServerLimits& limits, AskHandler on_ask, ForgetHandler on_forget)
    : limits_(limits), on_ask_(std::move(on_ask)), on_forget_(std::move(on_forget)), stream_(std::move(peer)) {}

std::uint32_t NodeLink::awaited() const {
  const bool paused = !unread_.empty();
  return (paused ? 0u : std::uint32_t{EPOLLIN}) | (paused || stream_.writing() ? std::uint32_t{EPOLLOUT} : 0u);
}

void NodeLink::on_ready(std::uint32_t events) {
  if (over_) return;
  if (events & EPOLLOUT) flush();
  take_unread();
  if (over_ || !unread_.empty()) return;
  if (!stream_.read([this](std::string_view bytes) { take(bytes); })) over_ = true;
}

void NodeLink::take_unread() {
  if (!over_ && !unread_.empty() && !over_full()) take(std::exchange(unread_, {}));
}

void NodeLink::take(std::string_view bytes) {
  Parsed parsed = Parsed::complete;
  if (unread_.empty())  // otherwise these bytes come after it
    while (!over_ && !over_full() && (parsed = reader_.feed(bytes)) == Parsed::complete) take_in(reader_.take());
  if (parsed == Parsed::bad) over_ = true;
  unread_.append(bytes);
}

void NodeLink::take_in(LinkRequest request) {
  std::visit(overloaded{
                 [&](LinkAsk& ask) {
                   const Ticket first = last_ticket_ + 1;
                   last_ticket_ += ask.askers;
                   over_ = last_ticket_ > kTicketMax;
                   if (!over_) on_ask_(first, std::move(ask));
                 },
                 [&](const LinkForget& forget) {
                   if (parked_.erase(forget.ticket)) on_forget_(forget.ticket);
                   forgotten(forget.ticket);
                 },
             },
             request);
}

void NodeLink::park(Ticket ticket) {
  parked_.insert(ticket);
  if (parked_.size() > kAskersMax) over_ = true;  // more than it has clients
  put({{LinkReplyKind::parked, ticket, 1, 0}});
}

void NodeLink::forgotten(Ticket ticket) { put({{LinkReplyKind::forgotten, ticket, 1, 0}}); }

void NodeLink::answer(Ticket first, std::uint32_t tickets, const Reply& reply) {
  parked_.erase(first);  // only waits are answered later, and one by one
  const std::uint64_t size = wire_size(reply);
  if (std::holds_alternative<Hangup>(reply) || size > kLinkReplyBytesMax)
    return put({{LinkReplyKind::hangup, first, tickets, 0}});
  const LinkReplyHead head{LinkReplyKind::answer, first, tickets, size};
  if (const Flag* flag = std::get_if<Flag>(&reply)) return put({head, static_cast<char>(*flag)});
  end_run();
  stream_.output().append_bytes(encode(head));
  stream_.output().append(reply);
}

void NodeLink::put(const Run& run) {
  if (run_ && run_->byte == run.byte && follows(run.head, run_->head)) {
    run_->head.tickets += run.head.tickets;
    return;
  }
  end_run();
  run_ = run;
}

void NodeLink::end_run() {
  if (!run_) return;
  stream_.output().append_bytes(encode(run_->head));
  if (run_->head.size) stream_.output().append_bytes(std::string_view(&run_->byte, 1));
  run_.reset();
}

void NodeLink::flush() {
  if (over_) return;
  end_run();
  const std::size_t before = stream_.output().size();
  const bool was_writing = stream_.writing();
  if (!stream_.flush()) over_ = true;
  if (!stream_.writing())
    deadline_ = kNever;
  else if (!was_writing || stream_.output().size() < before)
    deadline_ = Clock::now() + limits_.deaf_for_max;
}

}  // namespace ddprun::rendezvous

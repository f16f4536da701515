#include "rendezvous/store/node_link.h"

#include <sys/epoll.h>

#include <utility>

#include "rendezvous/base/overloaded.h"

namespace ddprun::rendezvous {
namespace {

bool follows(const LinkReplyHead& next, const LinkReplyHead& last) {
  return next.kind == last.kind && next.first == last.first + last.tickets &&
         next.tickets <= kRequestersMax - last.tickets;
}

}  // namespace

NodeLink::NodeLink(ReleasedPeer peer, const ServerLimits& limits, RequestHandler on_request, CancelHandler on_cancel)
    : limits_(limits), on_request_(std::move(on_request)), on_cancel_(std::move(on_cancel)), stream_(std::move(peer)) {}

std::uint32_t NodeLink::awaited() const {
  const bool paused = !unread_.empty();
  return (paused ? 0u : std::uint32_t{EPOLLIN}) | (paused || stream_.writing() ? std::uint32_t{EPOLLOUT} : 0u);
}

void NodeLink::on_ready(std::uint32_t events) {
  if (closed_) return;
  if (events & EPOLLOUT) flush();
  take_unread();
  if (closed_ || !unread_.empty()) return;
  if (!stream_.read([this](std::string_view bytes) { take(bytes); })) closed_ = true;
}

void NodeLink::take_unread() {
  if (!closed_ && !unread_.empty() && !output_full()) take(std::exchange(unread_, {}));
}

void NodeLink::take(std::string_view bytes) {
  Parsed parsed = Parsed::complete;
  if (unread_.empty())  // otherwise these bytes come after it
    while (!closed_ && !output_full() && (parsed = reader_.feed(bytes)) == Parsed::complete) dispatch(reader_.take());
  if (parsed == Parsed::bad) closed_ = true;
  unread_.append(bytes);
}

void NodeLink::dispatch(LinkRequest request) {
  std::visit(overloaded{
                 [&](LinkClientRequest& client_request) {
                   const Ticket first = last_ticket_ + 1;
                   last_ticket_ += client_request.requesters;
                   closed_ = last_ticket_ > kTicketMax;
                   if (!closed_) on_request_(first, std::move(client_request));
                 },
                 [&](const LinkCancelWait& cancel) {
                   if (parked_.erase(cancel.ticket)) on_cancel_(cancel.ticket);
                   cancelled(cancel.ticket);
                 },
             },
             request);
}

void NodeLink::park(Ticket ticket) {
  parked_.insert(ticket);
  if (parked_.size() > kRequestersMax) closed_ = true;  // more than it has clients
  put({{LinkReplyKind::parked, ticket, 1, 0}});
}

void NodeLink::cancelled(Ticket ticket) { put({{LinkReplyKind::cancelled, ticket, 1, 0}}); }

void NodeLink::answer(Ticket first, std::uint32_t tickets, const Reply& reply) {
  parked_.erase(first);  // only waits are answered later, and one by one
  const std::uint64_t size = wire_size(reply);
  if (std::holds_alternative<CloseConnection>(reply) || size > kLinkReplyBytesMax)
    return put({{LinkReplyKind::close, first, tickets, 0}});
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
  if (closed_) return;
  end_run();
  const std::size_t before = stream_.output().size();
  const bool was_writing = stream_.writing();
  if (!stream_.flush()) closed_ = true;
  if (!stream_.writing())
    deadline_ = kNever;
  else if (!was_writing || stream_.output().size() < before)
    deadline_ = Clock::now() + limits_.write_stall_max;
}

}  // namespace ddprun::rendezvous

// The store's side of one node's store proxy: the requests of many clients over one connection.
//
// As a client's connection, it takes no request while much output waits, and ends when the peer is gone, broke the
// protocol, or takes nothing in time. After every call the server asks which events it awaits, until when, and whether
// it is closed. Replies are queued, and equal ones to consecutive tickets combined; flush() sends them.
//
// Runs only in the server's loop thread.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>

#include "rendezvous/base/time.h"
#include "rendezvous/store/link_protocol.h"
#include "rendezvous/store/peer_stream.h"
#include "rendezvous/store/server_limits.h"

namespace ddprun::rendezvous {

class NodeLink {
 public:
  // The request's requesters have the tickets from `first` on.
  using RequestHandler = std::function<void(Ticket first, LinkClientRequest)>;
  using CancelHandler = std::function<void(Ticket)>;

  NodeLink(ReleasedPeer peer, const ServerLimits& limits, RequestHandler on_request, CancelHandler on_cancel);

  void on_ready(std::uint32_t events);
  // The client waiting with this ticket will be answered later.
  void park(Ticket ticket);
  void answer(Ticket first, std::uint32_t tickets, const Reply& reply);
  void cancelled(Ticket ticket);
  void flush();

  int fd() const { return stream_.fd(); }
  const std::unordered_set<Ticket>& parked() const { return parked_; }
  std::uint32_t awaited() const;                    // EPOLLIN, EPOLLOUT
  TimePoint deadline() const { return deadline_; }  // TimePoint::max(): none
  bool closed() const { return closed_; }
  void close() { closed_ = true; }
  // In its own memory.
  std::size_t held_bytes() const { return reader_.held_bytes() + unread_.size() + stream_.output().own_bytes(); }

 private:
  // A reply not yet queued: the next one may have the next ticket.
  struct Run {
    LinkReplyHead head;
    char byte = 0;  // an answer's only byte
  };
  bool output_full() const { return stream_.output().size() > limits_.output_bytes_pause; }
  void take(std::string_view bytes);
  void take_unread();
  void dispatch(LinkRequest request);
  void put(const Run& run);
  void end_run();

  const ServerLimits limits_;
  const RequestHandler on_request_;
  const CancelHandler on_cancel_;
  PeerStream stream_;
  LinkRequestReader reader_;
  std::string unread_;  // read, but paused before it was taken
  Ticket last_ticket_ = 0;
  std::unordered_set<Ticket> parked_;
  std::optional<Run> run_;
  TimePoint deadline_ = TimePoint::max();
  bool closed_ = false;
};

}  // namespace ddprun::rendezvous

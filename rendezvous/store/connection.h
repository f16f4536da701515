// One client of the store: its socket, what it has sent so far, what it is still to be sent.
//
// It reads no faster than it is read from: while more than `output_bytes_pause` waits to be sent, no request is taken.
// It is over when the peer is gone or broke the protocol and has got its replies, or fails to say Op::validate or to
// take anything in time. After every call the server asks what is awaited now, until when, and whether it is over.
//
// Idle, it holds a few hundred bytes and nothing on the heap. Runs in the server's loop, in no other thread.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "rendezvous/base/fd.h"
#include "rendezvous/base/time.h"
#include "rendezvous/store/output_queue.h"
#include "rendezvous/store/request_parser.h"
#include "rendezvous/store/server_limits.h"
#include "rendezvous/store/store_memory.h"
#include "rendezvous/store/waiting_clients.h"

namespace ddprun::rendezvous {

// What all connections of a server share.
struct ConnectionHost {
  ServerLimits limits;
  std::function<void(ClientId, Request)> on_request;
  MemoryBudget& memory;                      // for what is under way
  bool values_are_counted_elsewhere = true;  // those that wait to be sent: by the store
  static constexpr std::size_t kScratchBytes = 64 << 10;
  std::unique_ptr<char[]> scratch{new char[kScratchBytes]};  // for reading: the loop reads one connection at a time
};

class Connection {
 public:
  // The socket is a non-blocking one.
  Connection(ClientId id, Fd socket, ConnectionHost& host);

  // The poller found these; requests go to the host.
  void on_ready(std::uint32_t events);
  // Queues it; flush() sends.
  void send(const Reply& reply);
  void send(const Value& bytes);
  void flush();
  // No further request is taken, until go_on(): the answer to the last one has to be fetched.
  void hold() { held_ = true; }
  void go_on();
  // As Hangup does: what was sent before it still goes out.
  void hang_up();
  void close() { over_ = true; }
  // It has more under way than there is memory for: closed.
  bool closed_for_memory();

  int fd() const { return socket_.get(); }
  std::uint32_t awaited() const;                    // EPOLLIN, EPOLLOUT
  TimePoint deadline() const { return deadline_; }  // TimePoint::max(): none
  bool validated() const { return parser_.validated(); }
  bool said_nothing() const { return said_nothing_; }
  bool input_over() const { return input_over_; }
  bool over() const { return over_; }

 private:
  void count();
  void read_some();
  void take(std::string_view bytes);
  void stop_input();
  void write_some();
  bool over_full() const { return output_.size() > host_.limits.output_bytes_pause; }

  const ClientId id_;
  const Fd socket_;
  ConnectionHost& host_;
  TimePoint deadline_;  // for Op::validate, later for a peer that takes nothing
  RequestParser parser_;
  OutputQueue output_;
  std::string unread_;  // read, but paused or held before it was taken
  bool paused_ = false;
  bool held_ = false;
  bool input_over_ = false;
  bool said_nothing_ = true;
  bool writing_ = false;  // waiting for room in the socket
  bool over_ = false;
  MemoryBudget::Charge charge_;
};

}  // namespace ddprun::rendezvous

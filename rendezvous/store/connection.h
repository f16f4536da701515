// One client of the store: its socket, the bytes received so far, and the bytes still to be sent.
//
// While more than `output_bytes_pause` waits to be sent, it takes no request. It ends when the peer is gone or broke
// the protocol and has got its replies, or does not send Op::validate or take anything in time. After every call the
// server asks which events it awaits, until when, and whether it is closed.
//
// Idle, it takes a few hundred bytes and nothing on the heap. Runs only in the server's loop thread.
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
  MemoryBudget& memory;                      // for requests and replies in flight
  bool values_are_counted_elsewhere = true;  // the store counts those that wait to be sent
  static constexpr std::size_t kScratchBytes = 64 << 10;
  std::unique_ptr<char[]> scratch{new char[kScratchBytes]};  // for reading: the loop reads one connection at a time
};

class Connection {
 public:
  // The socket is non-blocking.
  Connection(ClientId id, Fd socket, ConnectionHost& host);

  // Events from the poller; requests go to the host.
  void on_ready(std::uint32_t events);
  // Queues it; flush() sends.
  void send(const Reply& reply);
  void send(const Value& bytes);
  void flush();
  // Takes no further request until resume(): the answer to the last one has to be fetched.
  void hold() { held_ = true; }
  void resume();
  // As CloseConnection does: replies to earlier requests are still sent.
  void close_after_output();
  void close() { closed_ = true; }
  // Closed because it has more under way than there is memory for.
  bool close_if_out_of_memory();

  int fd() const { return socket_.get(); }
  std::uint32_t awaited() const;                    // EPOLLIN, EPOLLOUT
  TimePoint deadline() const { return deadline_; }  // TimePoint::max(): none
  bool validated() const { return parser_.validated(); }
  bool received_nothing() const { return received_nothing_; }
  bool input_closed() const { return input_closed_; }
  bool closed() const { return closed_; }

 private:
  void count();
  void read_some();
  void take(std::string_view bytes);
  void stop_input();
  void write_some();
  bool output_full() const { return output_.size() > host_.limits.output_bytes_pause; }

  const ClientId id_;
  const Fd socket_;
  ConnectionHost& host_;
  TimePoint deadline_;  // for Op::validate, later for a peer that takes nothing
  RequestParser parser_;
  OutputQueue output_;
  std::string unread_;  // read, but paused or held before it was taken
  bool paused_ = false;
  bool held_ = false;
  bool input_closed_ = false;
  bool received_nothing_ = true;
  bool writing_ = false;  // waiting for room in the socket
  bool closed_ = false;
  MemoryBudget::Charge charge_;
};

}  // namespace ddprun::rendezvous

// One client of the store: its socket, what it has sent so far, what it is still to be sent.
//
// It reads no faster than it is read from: while more than `output_bytes_pause` waits to be sent, no request is taken.
// It closes itself when the peer is gone, breaks the protocol, does not say Op::validate in time, or has taken nothing
// for `deaf_for_max`. What it throws ends it alone.
//
// Runs in the server's loop, in no other thread. Handlers hold it by shared_ptr, so that it outlives its removal.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>

#include "rendezvous/output_queue.h"
#include "rendezvous/request_parser.h"
#include "rendezvous/server_limits.h"
#include "rendezvous/waiting_clients.h"

namespace ddprun {

// What all connections of a server share.
struct ConnectionHost {
  ServerLimits limits;
  std::function<void(ClientId, Request)> on_request;
  std::function<void(ClientId)> on_validated, on_input_over, on_closed;
  std::function<void()> on_turn_over;  // a batch of requests is done: time to flush
  static constexpr std::size_t kScratchBytes = 64 << 10;
  std::unique_ptr<char[]> scratch{new char[kScratchBytes]};  // for reading: the loop reads one connection at a time
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(ClientId id, asio::ip::tcp::socket socket, ConnectionHost& host);
  void start();
  // Queues it; flush() sends.
  void send(const Reply& reply);
  void flush();
  void close();

 private:
  using Step = void (Connection::*)();
  void attempt(Step step);

  void await_input();
  void on_readable();
  void take(std::string_view bytes);
  bool over_full() const { return output_.size() > host_.limits.output_bytes_pause; }
  void go_on();
  void stop_input();

  void await_room();
  void write_some();
  void after_write();

  void limit_next(std::chrono::milliseconds limit);
  void lift_limit();

  const ClientId id_;
  asio::ip::tcp::socket socket_;
  asio::steady_timer deadline_;  // for Op::validate, later for a peer that takes nothing
  ConnectionHost& host_;
  RequestParser parser_;
  OutputQueue output_;
  std::string unread_;  // read, but paused before it was taken
  bool paused_ = false;
  bool input_over_ = false;
  bool writing_ = false;  // waiting for room in the socket
};

}  // namespace ddprun

// Requests that get one answer each, and have none yet.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include "rendezvous/base/time.h"

namespace ddprun::agent {

// For the thread of the io_context.
template <class Answer>
class AskedOnce {
 public:
  using Reply = std::function<void(const Answer&)>;
  using Late = Answer (*)();
  // `late`: what is answered after `limit`.
  AskedOnce(asio::io_context& io, Duration limit, Late late) : io_(io), limit_(limit), late_(late) {}

  // The number of the new request.
  int begin(Reply reply) {
    const int serial = ++last_;
    Request& request = requests_[serial];
    request.reply = std::move(reply);
    request.timer = std::make_unique<asio::steady_timer>(io_, limit_);
    request.timer->async_wait([this, serial](const std::error_code& error) {
      if (!error) take(serial, late_());
    });
    return serial;
  }

  void take(int serial, const Answer& answer) {
    auto request = requests_.extract(serial);
    if (!request.empty()) request.mapped().reply(answer);
  }

 private:
  struct Request {
    Reply reply;
    std::unique_ptr<asio::steady_timer> timer;
  };
  asio::io_context& io_;
  const Duration limit_;
  const Late late_;
  std::map<int, Request> requests_;
  int last_ = 0;
};

}  // namespace ddprun::agent

// Acts that the coordinator has not answered yet.
#pragma once
#include <functional>
#include <map>
#include <memory>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include "agent/status/act_request.h"

namespace ddprun::agent {

class AskedActs {
 public:
  using Reply = std::function<void(const ActAnswer&)>;
  explicit AskedActs(asio::io_context& io) : io_(io) {}

  // The number of the new request. After five seconds it is answered: nobody knows whether it was carried out.
  int begin(Reply reply);
  void take(int serial, const ActAnswer& answer);

 private:
  struct Request {
    Reply reply;
    std::unique_ptr<asio::steady_timer> timer;
  };
  asio::io_context& io_;
  std::map<int, Request> requests_;
  int last_ = 0;
};

}  // namespace ddprun::agent

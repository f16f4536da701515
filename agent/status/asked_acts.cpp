#include "agent/status/asked_acts.h"

#include <chrono>
#include <utility>

namespace ddprun::agent {
namespace {

constexpr std::chrono::seconds kActLimit{5};

}  // namespace

int AskedActs::begin(Reply reply) {
  const int serial = ++last_;
  Request& request = requests_[serial];
  request.reply = std::move(reply);
  request.timer = std::make_unique<asio::steady_timer>(io_, kActLimit);
  request.timer->async_wait([this, serial](const std::error_code& error) {
    if (!error) take(serial, {false, "the coordinator has not answered within 5 s; it may have been carried out"});
  });
  return serial;
}

void AskedActs::take(int serial, const ActAnswer& answer) {
  auto request = requests_.extract(serial);
  if (!request.empty()) request.mapped().reply(answer);
}

}  // namespace ddprun::agent

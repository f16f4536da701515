#include "agent/round/round_store.h"

#include <fcntl.h>

#include <utility>

#include <asio/post.hpp>

#include "rendezvous/coordination/server/coordinator_server.h"

namespace ddprun::agent {
namespace {

constexpr const char* kLoopback = "127.0.0.1";

rendezvous::ServerLimits store_limits(const RoundOptions& options) {
  rendezvous::ServerLimits limits;
  if (options.store_bytes_max) limits.memory_bytes_max = options.store_bytes_max;
  return limits;
}

}  // namespace

RoundStore::RoundStore(asio::io_context& io, const RoundOptions& options, Hooks hooks)
    : io_(io), options_(options), hooks_(std::move(hooks)), timer_(io), lost_timer_(io) {}

void RoundStore::open() {
  close();
  rendezvous::Server::Options store{.address = options_.store_address,
                                    .port = options_.master_port,
                                    .ports = options_.store_ports,
                                    .port_before = last_port_,
                                    .limits = store_limits(options_),
                                    .own_user_only = !options_.store_for_any_user,
                                    .log = hooks_.print,
                                    .begins_later = true};
  if (options_.store_proxy || options_.store_through_agents) store.address = kLoopback;
  store_ = std::make_unique<rendezvous::Server>(store);
  last_port_ = store_->port();
  begins_with_first_client() ? await_first_client() : begin();
}

// Many programs on one node never ask their store: then it needs no thread. While a template forks workers our loop
// does not turn for long, and those that run already are not to wait for that.
bool RoundStore::begins_with_first_client() const { return !options_.several_nodes && !options_.prefork; }

void RoundStore::await_first_client() {
  Fd ready(fcntl(store_->ready_fd(), F_DUPFD_CLOEXEC, 0));
  asio::error_code error;
  if (ready) first_client_.emplace(io_).assign(ready.get(), error);
  if (!ready || error) return begin();
  [[maybe_unused]] const int ours = ready.release();
  first_client_->async_wait(asio::posix::stream_descriptor::wait_read, [this](const asio::error_code& ended) {
    if (!ended) begin();
  });
}

// A limit of threads may be reached for a moment.
void RoundStore::begin() {
  std::string refused = store_->begin();
  if (refused.empty()) first_client_.reset();
  if (refused.empty() && proxy_) refused = proxy_->begin();
  if (refused.empty()) return;
  if (!std::exchange(told_of_thread_, true))
    hooks_.print("the store cannot begin to serve: " + refused + "; it tries again every second");
  timer_.expires_after(std::chrono::seconds(1));
  timer_.async_wait([this](const asio::error_code& canceled) {
    if (!canceled && store_) begin();
  });
}

void RoundStore::close() {
  timer_.cancel();
  first_client_.reset();
  dialer_.reset();
  proxy_.reset();
  if (store_) earlier_.requests = counts().requests;
  store_.reset();
}

rendezvous::Server::Counts RoundStore::counts() const {
  rendezvous::Server::Counts out = earlier_;
  if (!store_) return out;
  const rendezvous::Server::Counts now = store_->counts();
  out.connections = now.connections;
  for (std::size_t op = 0; op < out.requests.size(); ++op) out.requests[op] += now.requests[op];
  return out;
}

void RoundStore::open_proxy(const rendezvous::Seat& seat, Coordination& coordination) {
  dialer_.reset();
  proxy_.reset();
  if (seat.group_rank == 0) return coordination.offer_store(seat.round, store_->gateway());
  proxy_ = std::make_unique<rendezvous::StoreProxy>(rendezvous::StoreProxy::Options{
      .limits = store_limits(options_),
      .own_user_only = !options_.store_for_any_user,
      .on_lost = [this, round = seat.round](
                     const std::string& why) { asio::post(io_, [this, round, why] { lost(round, why); }); },
      .log = hooks_.print});
  begin();
  dialer_ = coordination.dial_store(seat, proxy_->upstream());
}

// At a round's end the store closes before we are told, and the coordinator reports a lost node: print a line only if
// nothing else has been reported by then.
void RoundStore::lost(int round, const std::string& why) {
  lost_timer_.expires_after(rendezvous::kLease);
  lost_timer_.async_wait([this, round, why](const asio::error_code& error) {
    if (!error) hooks_.on_lost(round, why);
  });
}

rendezvous::Seat RoundStore::seat_for_workers(rendezvous::Seat seat) const {
  if (!is_through_agents(seat)) return seat;
  seat.master_host = kLoopback;
  seat.master_port = proxy_ ? proxy_->port() : store_->port();
  return seat;
}

}  // namespace ddprun::agent

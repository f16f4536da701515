// The thread of an agent's link: what the link does runs there, what it tells the agent runs in the agent's loop.
//
// Both ways by queues, in order. A message that the loop sends belongs to the connection of which the loop knows: if
// another one has taken its place meanwhile, the message is lost with the first, and the loop is told to begin anew.
#include <pthread.h>

#include <atomic>
#include <exception>
#include <future>
#include <memory>
#include <thread>
#include <utility>
#include <variant>

#include <asio/executor_work_guard.hpp>
#include <asio/post.hpp>

#include "agent/link/coordination.h"
#include "agent/link/etcd_link.h"
#include "agent/link/job_link.h"
#include "agent/link/loop_pulse.h"
#include "rendezvous/base/error.h"
#include "rendezvous/base/thread.h"

namespace ddprun::agent {
namespace {

class LinkThread : public Coordination {
 public:
  LinkThread(asio::io_context& loop, const rendezvous::RoundPolicy& policy, const Meeting& meeting, Hooks hooks)
      : loop_(loop),
        hooks_(std::move(hooks)),
        pulse_(loop),
        link_((meeting.etcd ? make_etcd_link : make_job_link)(
            io_, loop, policy, meeting, [this] { return pulse_.stood(); }, link_hooks())),
        node_(link_->node()) {}

  ~LinkThread() override {
    *over_ = true;
    io_.stop();
    if (thread_.joinable()) thread_.join();
  }

 private:
  // Waits for the link, which never blocks.
  template <class Function>
  auto ask(Function function) const {
    std::packaged_task<decltype(function())()> task(std::move(function));
    auto answer = task.get_future();
    asio::post(io_, [&task] { task(); });
    return answer.get();
  }

 public:
  // Before its thread begins: an announcement that has come already is not sent again, and needs a started link.
  void start() override {
    link_->start();
    if (const std::string refused = start_thread(thread_, [this] { run(); }); !refused.empty())
      throw Error("this node cannot take part in the job", refused,
                  "Raise the limit (ulimit -u, or the cgroup's pids.max).");
  }
  bool send(const rendezvous::FromAgent& message) override {
    if (connected_to_ == 0) return false;
    asio::post(io_, [this, message, to = connected_to_] {
      if (to == connection_) link_->send(message);
    });
    return true;
  }
  bool connected() const override { return connected_to_ != 0; }
  void cut(Duration time) override {
    asio::post(io_, [this, time] { link_->cut(time); });
  }
  rendezvous::NodeId node() const override { return node_; }
  void offer_store(int round, const rendezvous::StoreGateway& store) override { link_->offer_store(round, store); }
  std::unique_ptr<rendezvous::StoreDialer> dial_store(const rendezvous::Seat& seat,
                                                      const rendezvous::StoreUpstream& proxy) override {
    return link_->dial_store(seat, proxy);
  }
  std::unique_ptr<rendezvous::LinkDialer> dial_copies(const rendezvous::ControlAddress& agent,
                                                      rendezvous::LinkDialer::Hooks hooks) override {
    return link_->dial_copies(agent, std::move(hooks));
  }
  bool may_leave() const override {
    return ask([this] { return link_->may_leave(); });
  }
  void leave() override {
    *over_ = true;
    ask([this] { link_->leave(); });
  }
  bool all_left(std::chrono::milliseconds most) override { return link_->all_left(most); }

 private:
  template <class Function>
  void on_loop(Function function) {
    asio::post(loop_, [over = over_, function = std::move(function)]() mutable {
      if (!*over) function();
    });
  }

  Hooks link_hooks() {
    return {[this] {
              on_loop([this, to = ++connection_] {
                connected_to_ = to;
                hooks_.on_connected();
              });
            },
            [this](const rendezvous::ToAgent& message) {
              on_loop([this, message, from = connection_] {
                const bool is_end = std::holds_alternative<rendezvous::EndJob>(message);
                if (from > isolated_ || is_end) hooks_.on_message(message);
              });
            },
            [this] { isolated(); },
            [this](const std::string& why, bool certain, TimePoint when) {
              on_loop([this, why, certain, when] {
                connected_to_ = 0;
                hooks_.on_unreachable(why, certain, when);
              });
            },
            [this](const std::string& why, bool certain) {
              on_loop([this, why, certain] {
                connected_to_ = 0;
                hooks_.on_no_coordinator(why, certain);
              });
            },
            hooks_.log,
            [this](const std::string& line, const std::function<void(const std::string&)>& answer) {
              on_loop([this, line, answer] {
                if (hooks_.on_request) hooks_.on_request(line, answer);
              });
            },
            hooks_.on_ledger,
            copies_hook()};
  }

  std::function<void(rendezvous::ReleasedPeer)> copies_hook() {
    if (!hooks_.on_copies) return {};
    return [this](rendezvous::ReleasedPeer peer) {
      on_loop([this, shared = std::make_shared<rendezvous::ReleasedPeer>(std::move(peer))] {
        hooks_.on_copies(std::move(*shared));
      });
    };
  }

  // The loop is told first: to it the workers' ends are no failures. It starts none on an order that came before.
  void isolated() {
    isolated_ = connection_;
    const int closing = hooks_.fence ? hooks_.fence->close() : 0;
    on_loop([this, closing] {
      connected_to_ = 0;
      if (hooks_.fence) hooks_.fence->open(closing);
      hooks_.on_isolated();
    });
    if (hooks_.fence) hooks_.fence->end_all();
  }

  void run() {
    pthread_setname_np(pthread_self(), "ddprun-link");
    const auto work = asio::make_work_guard(io_);
    while (!io_.stopped()) try {
        io_.run();
      } catch (...) {
        asio::post(loop_, [error = std::current_exception()] { std::rethrow_exception(error); });
      }
  }

  asio::io_context& loop_;
  const Hooks hooks_;
  mutable asio::io_context io_{1};
  LoopPulse pulse_;                                                   // for our thread
  int connection_ = 0;                                                // the same; counts them
  std::atomic<int> isolated_ = 0;                                     // the last one that ended so
  int connected_to_ = 0;                                              // the one of which the loop knows; 0: none
  const std::shared_ptr<bool> over_ = std::make_shared<bool>(false);  // no hook is called in the loop any more
  const std::unique_ptr<Coordination> link_;
  const rendezvous::NodeId node_;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<Coordination> make_remote_coordination(asio::io_context& io, const rendezvous::RoundPolicy& policy,
                                                       const Meeting& meeting, Coordination::Hooks hooks) {
  return std::make_unique<LinkThread>(io, policy, meeting, std::move(hooks));
}

}  // namespace ddprun::agent

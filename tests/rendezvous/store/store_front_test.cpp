// The store's front, turn by turn.
#include "rendezvous/store/store_front.h"

#include "rendezvous/peer/listen_socket.h"
#include "tests/rendezvous/store/raw_peer.h"
#include "tests/support/test.h"

namespace {

// Says what is asked, by a store that only counts.
class Front {
 public:
  explicit Front(const ServerLimits& limits = {})
      : listening_(open_listener("127.0.0.1", 0)),
        front_(listening_, false, limits, memory_, poller_,
               {[this](ClientId id, const Request& request) { answer(id, request); }, [](ClientId) {}, [](ClientId) {},
                [](const std::string&) {}}) {}
  std::uint16_t port() const { return listening_.port; }
  int answered() const { return answered_; }
  // False: nothing happened.
  bool turn() {
    const auto events = poller_.wait(Clock::now() + 100ms);
    for (const epoll_event& event : events) front_.on_ready(event);
    front_.finish_turn();
    return !events.empty();
  }

 private:
  void answer(ClientId id, const Request& request) {
    if (request.op == Op::ping) return;  // its nonce is of no interest here
    ++answered_;
    front_.send(id, Number{answered_});
  }

  Listening listening_;
  MemoryBudget memory_;
  Poller poller_;
  int answered_ = 0;
  StoreFront front_;
};

}  // namespace

TEST_CASE("however many unauthenticated peers come at once, who is served is answered between a few of them",
          "[front]") {
  constexpr int kStrangers = 200, kNewcomersPerTurn = 8;
  Front front;
  RawPeer served(front.port());
  served.send({Op::validate, {}, {}, kMagic}).send({Op::num_keys});
  while (front.answered() == 0) front.turn();
  CHECK(served.receive_number() == 1);
  std::vector<RawPeer> strangers;  // they say at once what each of them will be counted by
  for (int i = 0; i < kStrangers; ++i) {
    strangers.emplace_back(front.port());
    strangers.back().send({Op::validate, {}, {}, kMagic}).send({Op::num_keys});
  }
  for (int asked = 1, let_in = 0; let_in < kStrangers; ++asked) {
    served.send({Op::num_keys});
    const int before = front.answered();
    REQUIRE(front.turn());
    REQUIRE(served.receive_number() > before);  // in this very turn
    let_in = front.answered() - 1 - asked;
    REQUIRE(let_in <= asked * kNewcomersPerTurn);
  }
}

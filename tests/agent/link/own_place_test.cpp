#include "agent/link/own_place.h"

#include <list>

#include "rendezvous/base/error.h"
#include "rendezvous/base/fd.h"
#include "tests/support/free_port.h"
#include "tests/support/test.h"

namespace {

constexpr auto kLimit = 20s;
const std::string kName = "node0.cluster";

// A name server; its threads may outlive the test.
class NameService {
 public:
  std::function<LookUp(const std::string&)> look_up() {
    return [state = state_](const std::string&) {
      const std::lock_guard lock(state->mutex);
      return state->answer;
    };
  }
  void answers(const LookUp& answer) {
    const std::lock_guard lock(state_->mutex);
    state_->answer = answer;
  }

 private:
  struct State {
    std::mutex mutex;
    LookUp answer = {.error = "Temporary failure in name resolution"};
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

// A port that another program listens on.
struct HeldPort {
  const Listening listening = open_listener("", 0);
  const std::uint16_t port = listening.port;
  Fd fd{listening.fd};
};

// An agent's places; what is listened on stays so until the end.
struct Rig {
  explicit Rig(std::vector<ControlAddress> places, std::vector<Locality> whose, bool others_may_host = true)
      : own(io, {std::move(places), std::move(whose), others_may_host, std::make_shared<Resolver>(io, names.look_up())},
            {[this](const Listening& listening) { fds.emplace_back(listening.fd); }, [this] { ++held_reports; }}) {}

  bool listen() {
    const auto listening = own.listen();
    if (listening) fds.emplace_back(listening->fd);
    return listening.has_value();
  }
  bool until(const std::function<bool()>& done) {
    return test::eventually([&] { return io.restart(), io.poll(), done(); }, kLimit);
  }

  asio::io_context io;
  NameService names;
  std::list<Fd> fds;
  int held_reports = 0;
  OwnPlace own;
};

}  // namespace

TEST_CASE("an agent listens at the first free place that is its machine's", "[own-place]") {
  const HeldPort held;
  Rig rig({{"a", free_port()}, {"b", held.port}, {"c", free_port()}},
          {Locality::remote, Locality::local, Locality::local});
  CHECK(rig.listen());
  CHECK(rig.own.place() == 2u);
}

TEST_CASE("a port that is held is told of, and taken when it is free", "[own-place]") {
  HeldPort held;
  Rig rig({{"a", held.port}}, {Locality::local});
  CHECK_FALSE(rig.listen());
  CHECK(rig.own.why_not() == "cannot bind port " + std::to_string(held.port) + " (Address already in use)");
  rig.own.keep_trying();
  REQUIRE(rig.until([&] { return rig.held_reports >= 2; }));
  CHECK_FALSE(rig.own.place());
  held.fd = Fd();
  REQUIRE(rig.until([&] { return rig.own.place().has_value(); }));
  CHECK(rig.fds.size() == 1);
  CHECK(rig.own.why_not() == "");
}

TEST_CASE("who listens at a later place goes on to try the earlier ones", "[own-place]") {
  HeldPort held;
  Rig rig({{"a", held.port}, {"b", free_port()}}, {Locality::local, Locality::local});
  CHECK(rig.listen());
  CHECK(rig.own.place() == 1u);
  rig.own.keep_trying();
  held.fd = Fd();
  REQUIRE(rig.until([&] { return rig.own.place() == 0u; }));
  CHECK(rig.fds.size() == 2);
}

TEST_CASE("a place whose name is found late is the machine's then", "[own-place]") {
  Rig rig({{kName, free_port()}}, {Locality::unknown});
  CHECK_FALSE(rig.listen());
  rig.own.keep_trying();
  rig.io.run_for(10ms);
  CHECK_FALSE(rig.own.place());
  rig.names.answers({.addresses = numeric_addresses("127.0.0.1")});
  CHECK(rig.until([&] { return rig.own.place() == 0u; }));
  CHECK(rig.held_reports == 0);
}

TEST_CASE("another machine's place is left to it", "[own-place]") {
  const bool late = GENERATE(true, false);
  Rig rig({{kName, free_port()}}, {late ? Locality::unknown : Locality::remote});
  rig.names.answers({.addresses = numeric_addresses("192.0.2.1")});
  rig.own.keep_trying();
  CHECK(rig.until([&] { return rig.own.whose(0) == Locality::remote; }));
  rig.io.restart();
  CHECK(rig.io.run_for(kLimit) < 10);  // there is nothing to wait for
  CHECK_FALSE(rig.own.place());
}

TEST_CASE("nothing is tried after the stop", "[own-place]") {
  HeldPort held;
  Rig rig({{"a", held.port}}, {Locality::local});
  CHECK_FALSE(rig.listen());
  rig.own.keep_trying();
  rig.own.stop();
  held.fd = Fd();
  rig.io.run_for(300ms);
  CHECK_FALSE(rig.own.place());
}

TEST_CASE("where no other agent may have the place, a port that is held is an error", "[own-place]") {
  const HeldPort held;
  Rig rig({{"a", held.port}}, {Locality::local}, false);
  CHECK_THROWS_AS(rig.own.listen(), Error);
}

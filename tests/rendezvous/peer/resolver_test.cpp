#include "rendezvous/peer/resolver.h"

#include <condition_variable>

#include <asio/executor_work_guard.hpp>

#include "rendezvous/base/fd.h"
#include "rendezvous/peer/connector.h"
#include "rendezvous/peer/listen_socket.h"
#include "tests/support/test.h"

namespace {

constexpr auto kLimit = 20s;
const std::string kName = "node0.cluster";

LookUp found(const std::string& address) { return {.addresses = numeric_addresses(address)}; }
LookUp nobody_answers() { return {.error = "Temporary failure in name resolution"}; }
LookUp no_such_host() { return {.error = "Name or service not known", .no_such_host = true}; }

// A name service that answers when a test lets it; shared with threads that may outlive the test.
class NameService {
 public:
  std::function<LookUp(const std::string&)> look_up() {
    return [state = state_](const std::string& host) {
      std::unique_lock lock(state->mutex);
      ++state->asked;
      std::deque<LookUp>& answers = state->answers[host];
      state->changed.wait(lock, [&] { return !answers.empty() || state->over; });
      if (answers.empty()) return nobody_answers();
      LookUp answer = answers.front();
      answers.pop_front();
      return answer;
    };
  }
  ~NameService() {
    const std::lock_guard lock(state_->mutex);
    state_->over = true;
    state_->changed.notify_all();
  }
  // To one question.
  void answer(const LookUp& answer, const std::string& host = kName) {
    const std::lock_guard lock(state_->mutex);
    state_->answers[host].push_back(answer);
    state_->changed.notify_all();
  }
  int asked() const {
    const std::lock_guard lock(state_->mutex);
    return state_->asked;
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    std::map<std::string, std::deque<LookUp>> answers;
    int asked = 0;
    bool over = false;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

class Rig {
 public:
  // What came of it, and until then nothing.
  std::shared_ptr<std::optional<LookUp>> resolve(Duration limit, const std::string& host = kName) {
    auto result = std::make_shared<std::optional<LookUp>>();
    resolver->resolve(host, limit, [result](const LookUp& came) {
      CHECK_FALSE(*result);
      *result = came;
    });
    return result;
  }
  template <class Done>
  bool until(Done done) {
    for (const auto end = Clock::now() + kLimit; !done();) {
      if (Clock::now() > end) return false;
      io.restart();
      io.run_for(2ms);
    }
    return true;
  }
  // Its answer, once that has come.
  LookUp resolved(Duration limit = kLimit, const std::string& host = kName) {
    const auto result = resolve(limit, host);
    REQUIRE(until_came(result));
    return result->value();
  }
  bool until_came(const std::shared_ptr<std::optional<LookUp>>& result) {
    return until([&] { return result->has_value(); });
  }

  asio::io_context io;
  NameService names;
  std::shared_ptr<Resolver> resolver = std::make_shared<Resolver>(io, names.look_up());
};

}  // namespace

TEST_CASE("a numeric address is nobody's to look up", "[resolver]") {
  Rig rig;
  const auto result = rig.resolve(kLimit, GENERATE("127.0.0.1", "::1"));
  CHECK_FALSE(*result);
  REQUIRE(rig.until_came(result));
  CHECK((*result)->addresses.size() == 1);
  CHECK(rig.names.asked() == 0);
}

TEST_CASE("each question is put anew, as a name may have moved or appeared meanwhile", "[resolver]") {
  Rig rig;
  rig.names.answer(no_such_host());
  CHECK(rig.resolved().no_such_host);
  rig.names.answer(found("127.0.0.1"));
  CHECK(rig.resolved().error == "");
  rig.names.answer(found("::1"));
  CHECK(rig.resolved().addresses.at(0).storage.ss_family == AF_INET6);
  CHECK(rig.names.asked() == 3);
}

TEST_CASE("a look-up that outlives its limit goes on, and serves whoever asks next", "[resolver]") {
  Rig rig;
  const bool asked_before_it_comes = GENERATE(true, false);
  CHECK_THAT(rig.resolved(10ms).error, Catch::Contains("no name server has answered"));
  auto second = std::make_shared<std::optional<LookUp>>();
  if (asked_before_it_comes) second = rig.resolve(kLimit);
  rig.names.answer(found("127.0.0.1"));
  if (!asked_before_it_comes) {
    const auto guard = asio::make_work_guard(rig.io);
    rig.io.restart();
    REQUIRE(rig.io.run_one_for(kLimit) == 1);
    second = rig.resolve(kLimit);
  }
  REQUIRE(rig.until_came(second));
  CHECK((*second)->addresses.size() == 1);
  CHECK(rig.names.asked() == 1);
}

TEST_CASE("a name that was found before keeps its addresses while no name server answers", "[resolver]") {
  Rig rig;
  rig.names.answer(found("127.0.0.1"));
  rig.resolved();
  CHECK(rig.resolved(10ms).addresses.size() == 1);
  rig.names.answer(nobody_answers());
  CHECK(rig.resolved().addresses.size() == 1);
  // While it has addresses it waits for an answer for a second only.
  bool is_gone = false;
  for (const auto end = Clock::now() + kLimit; !is_gone && Clock::now() < end;) {
    rig.names.answer(no_such_host());
    is_gone = rig.resolved().no_such_host;
  }
  CHECK(is_gone);
}

TEST_CASE("a look-up that hangs holds up no other name, and not the end", "[resolver]") {
  auto rig = std::make_unique<Rig>();
  const auto hanging = rig->resolve(kLimit);
  rig->names.answer(found("127.0.0.1"), "other");
  rig->resolved(kLimit, "other");
  rig.reset();  // would hang here
  CHECK_FALSE(*hanging);
}

TEST_CASE("nothing is called after the resolver's end", "[resolver]") {
  Rig rig;
  const auto numeric = rig.resolve(kLimit, "127.0.0.1"), name = rig.resolve(1ms);
  rig.resolver.reset();
  rig.names.answer(found("127.0.0.1"));
  rig.io.run_for(20ms);
  CHECK_FALSE(*numeric);
  CHECK_FALSE(*name);
}

namespace {

// What became of one way to a place.
struct Way {
  Way(Rig& rig, std::uint16_t port)
      : connector(rig.io, rig.resolver,
                  {[this](asio::ip::tcp::socket socket) { connected = socket.is_open(); },
                   [this](const Connector::Failure& failed) { failure = failed; }}) {
    connector.start({kName, port});
  }
  bool over() const { return connected || failure; }

  bool connected = false;
  std::optional<Connector::Failure> failure;
  Connector connector;
};

}  // namespace

// 192.0.2.1 is an address of no machine (RFC 5737); where its way is not known, or is refused, it fails sooner.
TEST_CASE("every address of a host is tried, and one that does not answer does not take the next one's time",
          "[resolver]") {
  Rig rig;
  const Listening listening = open_listener("127.0.0.1", 0);
  const Fd owner(listening.fd);
  LookUp several = found(GENERATE("127.0.0.2", "192.0.2.1"));  // nobody listens there
  several.addresses.push_back(numeric_addresses("127.0.0.1").at(0));
  rig.names.answer(several);
  Way way(rig, listening.port);
  REQUIRE(rig.until([&] { return way.over(); }));
  CHECK(way.connected);
}

TEST_CASE("a way that leads nowhere says why", "[resolver]") {
  Rig rig;
  const auto [answer, why, refused] = GENERATE(table<LookUp, std::string, bool>(
      {{no_such_host(), "no such host: Name or service not known", false},
       {nobody_answers(), "its name cannot be looked up: Temporary failure in name resolution", false},
       {found("127.0.0.1"), "Connection refused", true}}));
  rig.names.answer(answer);
  std::uint16_t closed = 0;
  {
    const Listening listening = open_listener("127.0.0.1", 0);
    closed = listening.port;
    close(listening.fd);
  }
  Way way(rig, closed);
  REQUIRE(rig.until([&] { return way.over(); }));
  REQUIRE(way.failure);
  CHECK(way.failure->why == why);
  CHECK(way.failure->refused == refused);
}

#include "rendezvous/store/store.h"

#include "rendezvous/base/overloaded.h"
#include "rendezvous/store/output_queue.h"
#include "tests/rendezvous/store/random_requests.h"
#include "tests/support/test.h"

namespace {

// An answer as one can read it: "2: stop", "1: 5", "1: 'a' 'b'", "1: n=2 'x'".
std::string text_of(const Reply& reply, Op op) {
  const bool waits = op != Op::check;
  return std::visit(overloaded{
                        [&](Flag flag) -> std::string {
                          if (waits) return flag == Flag::stop_waiting ? "stop" : "canceled";
                          return flag == Flag::ready ? "ready" : "not ready";
                        },
                        [](const Number& n) { return std::to_string(n.value); },
                        [](const Nonce& n) { return "nonce " + std::to_string(n.value); },
                        [](const Values& v) {
                          std::string out = v.count ? "n=" + std::to_string(*v.count) : "";
                          for (const Value& value : v.values) out += (out.empty() ? "'" : " '") + *value + "'";
                          return out;
                        },
                        [](const CloseConnection&) -> std::string { return "close"; },
                    },
                    reply);
}

using Lines = std::vector<std::string>;

Lines ask(Store& store, ClientId from, const Request& request) {
  Lines lines;
  for (const Answer& answer : store.on(from, request))
    lines.push_back(std::to_string(answer.to) + ": " + text_of(answer.reply, request.op));
  return lines;
}

Request set(std::string key, std::string value = "v") { return {Op::set, {std::move(key)}, {std::move(value)}}; }
Request get(std::string key) { return {Op::get, {std::move(key)}}; }
Request add(std::string key, std::int64_t delta) { return {Op::add, {std::move(key)}, {}, delta}; }
Request append(std::string key, std::string value) { return {Op::append, {std::move(key)}, {std::move(value)}}; }
Request check(std::vector<std::string> keys) { return {Op::check, std::move(keys)}; }
Request wait(std::vector<std::string> keys) { return {Op::wait, std::move(keys)}; }
Request push(std::string key, std::string value) { return {Op::queue_push, {std::move(key)}, {std::move(value)}}; }
Request pop(std::string key) { return {Op::queue_pop, {std::move(key)}}; }
Request deletion(std::string key) { return {Op::delete_key, {std::move(key)}}; }
Request barrier(std::string key, std::int64_t n) { return {Op::barrier, {std::move(key)}, {}, n}; }
Request compare_set(std::string key, std::string expected, std::string desired) {
  return {Op::compare_set, {std::move(key)}, {std::move(expected), std::move(desired)}};
}

}  // namespace

TEST_CASE("a value is there until it is overwritten or deleted", "[store]") {
  Store store;
  CHECK(ask(store, 1, get("k")) == Lines{"1: ''"});
  CHECK(ask(store, 1, set("k", "a")).empty());
  CHECK(ask(store, 2, get("k")) == Lines{"2: 'a'"});
  ask(store, 1, set("k", ""));
  CHECK(ask(store, 2, check({"k"})) == Lines{"2: ready"});
  CHECK(ask(store, 2, deletion("k")) == Lines{"2: 1"});
  CHECK(ask(store, 2, deletion("k")) == Lines{"2: 0"});
  CHECK(ask(store, 2, check({"k"})) == Lines{"2: not ready"});
  CHECK(ask(store, 2, check({})) == Lines{"2: ready"});
}

TEST_CASE("a counter is text that anyone can read and write", "[store]") {
  Store store;
  CHECK(ask(store, 1, add("n", 5)) == Lines{"1: 5"});
  CHECK(ask(store, 1, add("n", -7)) == Lines{"1: -2"});
  CHECK(ask(store, 1, get("n")) == Lines{"1: '-2'"});
  const std::map<std::string, std::string> read_as{
      {" 12abc", "12"}, {"0x10", "0"}, {std::string("5\0 9", 4), "5"},
      {"\t\n +3", "3"}, {"-8", "-8"},  {"9223372036854775807", "9223372036854775807"}};
  for (const auto& [text, number] : read_as) {
    ask(store, 1, set("t", text));
    CHECK(ask(store, 1, add("t", 0)) == Lines{"1: " + number});
  }
  ask(store, 1, set("n", "9223372036854775807"));  // it wraps around
  CHECK(ask(store, 1, add("n", 1)) == Lines{"1: -9223372036854775808"});
}

TEST_CASE("who adds to what is no number is hung up on, and the value stays", "[store]") {
  Store store;
  for (const std::string text : {"", "x", "-", "+-1", "- 1", " ", "9223372036854775808"}) {
    ask(store, 1, set("t", text));
    CHECK(ask(store, 1, add("t", 1)) == Lines{"1: close"});
    CHECK(ask(store, 1, barrier("t", 1)) == Lines{"1: close"});
    CHECK(ask(store, 2, get("t")) == Lines{"2: '" + text + "'"});
  }
}

TEST_CASE("appending does not change the bytes of a reply on its way", "[store]") {
  Store store;
  ask(store, 1, append("k", "ab"));
  const Answers on_its_way = store.on(2, get("k"));
  ask(store, 1, append("k", "cd"));
  CHECK(text_of(on_its_way[0].reply, Op::get) == "'ab'");
  CHECK(ask(store, 2, get("k")) == Lines{"2: 'abcd'"});
}

TEST_CASE("every way to create a key wakes who waits for it", "[store]") {
  for (const Request& creation : {set("k"), add("k", 1), append("k", ""), Request{Op::multi_set, {"j", "k"}, {"", ""}},
                                  compare_set("k", "", "x"), push("k", "x"), barrier("k", 9)}) {
    Store store;
    CHECK(ask(store, 1, wait({"k"})).empty());
    const Lines answers = ask(store, 2, creation);
    CHECK(std::count(answers.begin(), answers.end(), "1: stop") == 1);
    store.forget(2);
    CHECK_FALSE(store.anyone_waits());
  }
}

TEST_CASE("a wait ends with the last of its keys, once, whatever was deleted meanwhile", "[store]") {
  Store store;
  ask(store, 9, set("there"));
  ask(store, 1, wait({"a", "there", "b", "a"}));
  CHECK(ask(store, 2, set("a")).empty());
  ask(store, 2, deletion("a"));
  CHECK(ask(store, 2, set("a")).empty());
  CHECK(ask(store, 2, set("b")) == Lines{"1: stop"});
  CHECK(ask(store, 2, set("b")).empty());
  CHECK_FALSE(store.anyone_waits());
}

TEST_CASE("a canceled wait is never answered, and canceling is always", "[store]") {
  Store store;
  ask(store, 1, wait({"a", "b"}));
  CHECK(ask(store, 1, {Op::cancel_wait}) == Lines{"1: canceled"});
  CHECK(ask(store, 1, {Op::cancel_wait}) == Lines{"1: canceled"});
  CHECK(ask(store, 2, set("a")).empty());
  CHECK(ask(store, 2, set("b")).empty());
}

TEST_CASE("a client that is gone is not woken, and does not use up a push", "[store]") {
  Store store;
  ask(store, 1, wait({"q"}));
  ask(store, 2, wait({"q"}));
  store.forget(1);
  CHECK(ask(store, 3, push("q", "x")) == Lines{"2: stop"});
}

TEST_CASE("each push wakes one, the oldest first, and nobody a second time", "[store]") {
  Store store;
  for (ClientId client : {5, 3, 4}) ask(store, client, wait({"q"}));
  CHECK(ask(store, 9, push("q", "1")) == Lines{"5: stop"});
  CHECK(ask(store, 9, push("q", "2")) == Lines{"3: stop"});
  ask(store, 5, wait({"other"}));
  CHECK(ask(store, 9, push("q", "3")) == Lines{"4: stop"});
  CHECK(ask(store, 9, push("q", "4")).empty());
}

TEST_CASE("a queue gives back in order, says how much it had, and is no key", "[store]") {
  Store store;
  CHECK(ask(store, 1, pop("q")) == Lines{"1: n=0"});
  ask(store, 1, push("q", "a"));
  ask(store, 1, push("q", ""));
  CHECK(ask(store, 1, {Op::num_keys}) == Lines{"1: 0"});
  CHECK(ask(store, 1, deletion("q")) == Lines{"1: 0"});
  ask(store, 1, set("q", "key"));
  CHECK(ask(store, 1, {Op::queue_len, {"q"}}) == Lines{"1: 2"});
  CHECK(ask(store, 1, pop("q")) == Lines{"1: n=2 'a'"});
  CHECK(ask(store, 1, pop("q")) == Lines{"1: n=1 ''"});
  ask(store, 1, deletion("q"));
  CHECK(ask(store, 1, check({"q"})) == Lines{"1: not ready"});
}

TEST_CASE("a barrier opens for all when the last one comes, and not for who left", "[store]") {
  Store store;
  CHECK(ask(store, 1, barrier("b", 4)).empty());
  CHECK(ask(store, 2, barrier("b", 4)).empty());
  CHECK(ask(store, 3, barrier("b", 4)).empty());
  CHECK(ask(store, 2, {Op::cancel_wait}) == Lines{"2: canceled"});
  CHECK(ask(store, 4, barrier("b", 4)) == Lines{"4: stop", "1: stop", "3: stop"});
  CHECK(ask(store, 5, barrier("b", 4)) == Lines{"5: stop"});
}

TEST_CASE("listing and counting know all keys, also those without a slash", "[store]") {
  Store store;
  ask(store, 1, set("/a"));
  ask(store, 1, add("init/", 1));
  CHECK(ask(store, 1, {Op::num_keys}) == Lines{"1: 2"});
  const Lines listed = ask(store, 1, {Op::list_keys});
  CHECK((listed == Lines{"1: n=2 '/a' 'init/'"} || listed == Lines{"1: n=2 'init/' '/a'"}));
}

namespace {

// The store as one would write it without a thought for speed: lists, searched from the front.
class DumbStore {
 public:
  Lines ask(ClientId from, const Request& r) {
    lines_.clear();
    switch (r.op) {
      case Op::set:
        store(r.keys[0], r.values[0]);
        break;
      case Op::multi_set:
        for (std::size_t i = 0; i < r.keys.size(); ++i) store(r.keys[i], r.values[i]);
        break;
      case Op::append:
        store(r.keys[0], keys_[r.keys[0]] + r.values[0]);
        break;
      case Op::compare_set:
        compare_set(from, r.keys[0], r.values[0], r.values[1]);
        break;
      case Op::add:
        if (count(from, r.keys[0], r.number)) say(from, keys_[r.keys[0]]), wake(r.keys[0]);
        break;
      case Op::get:
      case Op::multi_get: {
        std::string out;
        for (const auto& key : r.keys) out += (out.empty() ? "'" : " '") + (keys_.count(key) ? keys_[key] : "") + "'";
        say(from, out);
        break;
      }
      case Op::check:
        say(from, missing(r.keys).empty() ? "ready" : "not ready");
        break;
      case Op::wait:
        forget(from);
        park(from, missing(r.keys), false);
        break;
      case Op::num_keys:
        say(from, std::to_string(keys_.size()));
        break;
      case Op::delete_key:
        say(from, std::to_string(keys_.erase(r.keys[0])));
        break;
      case Op::cancel_wait:
        forget(from);
        say(from, "canceled");
        break;
      case Op::ping:
        say(from, "nonce " + std::to_string(r.number));
        break;
      case Op::queue_push:
        queues_[r.keys[0]].push_back(r.values[0]);
        wake(r.keys[0], true);
        break;
      case Op::queue_pop:
        pop(from, queues_[r.keys[0]]);
        break;
      case Op::queue_len:
        say(from, std::to_string(queues_[r.keys[0]].size()));
        break;
      case Op::barrier:
        barrier(from, r.keys[0], r.number);
        break;
      case Op::list_keys:
      case Op::validate:
        break;
    }
    return lines_;
  }
  void forget(ClientId client) {
    std::erase_if(waits_, [&](const Wait& wait) { return wait.client == client; });
  }

 private:
  struct Wait {
    ClientId client;
    std::vector<std::string> names;
    bool at_barrier;
  };

  void say(ClientId to, const std::string& what) { lines_.push_back(std::to_string(to) + ": " + what); }
  std::vector<std::string> missing(std::vector<std::string> keys) {
    std::erase_if(keys, [&](const auto& key) { return keys_.count(key) || !queues_[key].empty(); });
    return keys;
  }
  void park(ClientId client, const std::vector<std::string>& names, bool at_barrier) {
    if (names.empty())
      say(client, "stop");
    else
      waits_.push_back({client, names, at_barrier});
  }
  void wake(const std::string& name, bool only_one = false, bool at_barrier = false) {
    for (auto wait = waits_.begin(); wait != waits_.end();) {
      const bool concerned = wait->at_barrier == at_barrier && std::erase(wait->names, name) > 0;
      const bool over = concerned && wait->names.empty();
      if (over) say(wait->client, "stop");
      wait = over ? waits_.erase(wait) : wait + 1;
      if (concerned && only_one) return;
    }
  }
  void store(const std::string& key, const std::string& value) {
    keys_[key] = value;
    wake(key);
  }
  void compare_set(ClientId from, const std::string& key, const std::string& expected, const std::string& desired) {
    const bool present = keys_.count(key) > 0;
    if (!present && !expected.empty()) return say(from, "'" + expected + "'");
    if (present && keys_[key] != expected) return say(from, "'" + keys_[key] + "'");
    say(from, "'" + desired + "'");
    store(key, desired);
  }
  bool count(ClientId from, const std::string& key, std::int64_t delta) {
    const std::string text = keys_.count(key) ? keys_[key] : "0";
    char* end = nullptr;
    errno = 0;
    const long long old = std::strtoll(text.c_str(), &end, 10);
    const bool number = end != text.c_str() && errno == 0;
    if (!number)
      say(from, "close");
    else
      keys_[key] = std::to_string(old + delta);
    return number;
  }
  void pop(ClientId from, std::vector<std::string>& queue) {
    if (queue.empty()) return say(from, "n=0");
    say(from, "n=" + std::to_string(queue.size()) + " '" + queue.front() + "'");
    queue.erase(queue.begin());
  }
  void barrier(ClientId from, const std::string& key, std::int64_t world_size) {
    forget(from);
    if (!count(from, key, 1)) return;
    const bool open = std::stoll(keys_[key]) >= world_size;
    if (open) say(from, "stop"), wake(key, false, true);
    wake(key);
    if (!open) waits_.push_back({from, {key}, true});
  }

  std::map<std::string, std::string> keys_;
  std::map<std::string, std::vector<std::string>> queues_;
  std::vector<Wait> waits_;
  Lines lines_;
};

}  // namespace

TEST_CASE("the store answers as its dumb twin, whoever asks what", "[store]") {
  const auto seed = GENERATE(range(1, 100));
  RandomRequests random(static_cast<std::uint64_t>(seed));
  Store store;
  DumbStore twin;
  for (int i = 0; i < 400; ++i) {
    const ClientId client = random.below(6);
    if (random.below(20) == 0) {
      store.forget(client);
      twin.forget(client);
      continue;
    }
    const Request request = random.next();
    if (request.op == Op::list_keys) continue;
    INFO("seed " << seed << ", step " << i << ", op " << static_cast<int>(request.op) << ", client " << client);
    REQUIRE(ask(store, client, request) == twin.ask(client, request));
  }
}

TEST_CASE("thousands of waits for the same keys come and go in no time", "[store]") {
  constexpr ClientId kClients = 20'000;  // quadratic, this would be minutes
  Store store;
  for (ClientId client = 0; client < kClients; ++client) ask(store, client, wait({"k", "never"}));
  for (ClientId client = 0; client < kClients; client += 2) store.forget(client);
  CHECK(ask(store, kClients, set("k")).empty());
  CHECK(ask(store, kClients, set("never")).size() == kClients / 2);
  CHECK_FALSE(store.anyone_waits());
}

namespace {

std::string_view front_of(const OutputQueue& queue) {
  iovec front{};
  CHECK(queue.next({&front, 1}) == 1);
  return {static_cast<const char*>(front.iov_base), front.iov_len};
}

}  // namespace

TEST_CASE("what is queued for a client leaves in order, whatever fits in each write", "[store]") {
  RandomRequests random(3);
  OutputQueue queue;
  std::string expected, written;
  const auto large = std::make_shared<const std::string>(random.bytes(40'000));
  while (expected.size() < 2'000'000) {
    queue.append(Nonce{0x41424344});
    expected += "DCBA";
    if (random.below(50) == 0) {
      queue.append(Values{{}, {large}});
      const std::uint64_t size = large->size();
      expected.append(reinterpret_cast<const char*>(&size), 8).append(*large);
    }
    for (std::uint64_t room = random.below(random.below(9) ? 20 : 60'000); room > 0 && !queue.empty();) {
      const std::string_view front = front_of(queue);
      const std::size_t n = std::min<std::size_t>(room, front.size());
      written += front.substr(0, n);
      queue.consume(n);
      room -= n;
    }
    REQUIRE(queue.size() == expected.size() - written.size());
  }
  while (!queue.empty()) {
    const std::string piece(front_of(queue));
    written += piece;
    queue.consume(piece.size());
  }
  CHECK((written == expected));
}

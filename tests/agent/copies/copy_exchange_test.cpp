// Two or three nodes' exchanges over socket pairs.
#include "agent/copies/copy_exchange.h"

#include <sys/socket.h>

#include "tests/support/test.h"

namespace {

using Part = CopyMemory::Part;

constexpr auto kLimit = 10s;

struct Node {
  explicit Node(std::uint64_t slot_bytes = 1 << 20, int places = 1, Duration stall = 10s)
      : memory(CopyMemory::create(places, 6 * slot_bytes * static_cast<std::uint64_t>(places))), stall_max(stall) {}

  std::string fetched(int round) const {
    const std::lock_guard lock(mutex);
    for (const auto& [of_round, text] : done)
      if (of_round == round) return text;
    return "not yet";
  }
  void note(int round, const std::string& text) {
    const std::lock_guard lock(mutex);
    done.emplace_back(round, text);
  }
  int count(const std::string& what) const {
    const std::lock_guard lock(mutex);
    return static_cast<int>(
        std::count_if(done.begin(), done.end(), [&](const auto& one) { return one.second == what; }));
  }

  mutable std::mutex mutex;
  std::vector<std::pair<int, std::string>> done;
  CopyMemory memory;
  Duration stall_max;
  CopyExchange exchange{
      memory,
      {[this](int round, const std::string& from, const std::string& why) {
         note(round, why.empty() ? "fetched" : from + ": " + why);
       },
       [this](int round) { note(round, "neighbour lost"); }, [this](int round) { note(round, "refused"); },
       [this](const std::string& line) { note(0, line); }},
      stall_max};
};

std::array<ReleasedPeer, 2> connected_ends() {
  int ends[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  std::array<ReleasedPeer, 2> out;
  for (int i = 0; i < 2; ++i) out[i].socket = Fd(ends[i]);
  return out;
}

CopyLabel label(std::uint64_t step, std::uint64_t rank = 0, std::uint64_t round = 1) { return {round, step, rank, 2}; }

void put(CopyMemory& memory, const CopyLabel& of, const std::string& content, Part part = Part::own, int place = 0) {
  const auto slot = memory.begin_write(part, place, of, content.size());
  REQUIRE(slot);
  memory.write(*slot, 0, content);
  memory.complete(*slot);
}

std::string content_of(const CopyMemory& memory, const CopyLabel& of) {
  const auto kept = memory.find(of);
  if (!kept) return "(none)";
  std::string out(kept->bytes, '\0');
  return memory.read(*kept, 0, out.data(), out.size()) ? out : "(replaced)";
}

std::string text_of(std::size_t bytes, char seed) {
  std::string out(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i) out[i] = static_cast<char>(seed + i * 31 + i / 4096);
  return out;
}

void begin(Node& node, int round, std::uint64_t first_rank) {
  node.memory.begin_round({static_cast<std::uint64_t>(round), first_rank, 2, true}, {});
  node.exchange.begin(round, {});
}

// Two nodes of a round, of which the first one copies to the other.
void meet(Node& from, Node& to, int round_of_other = 1, std::uint64_t rank_of_other = 1) {
  begin(from, 1, 0);
  begin(to, round_of_other, rank_of_other);
  auto [here, there] = connected_ends();
  to.exchange.add_caller(std::move(there));
  from.exchange.copy_to({1, 0, 2, true}, std::move(here));
}

}  // namespace

TEST_CASE("what a worker keeps comes to the next node until a new round begins, whole, and its slot says so",
          "[copies]") {
  Node from, to;
  meet(from, to);
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{700'001}}) {
    const CopyLabel of = label(bytes + 1);
    const std::string content = text_of(bytes, 'a');
    put(from.memory, of, content);
    REQUIRE(eventually([&] { return from.memory.find(of)->copied; }, kLimit));
    CHECK(content_of(to.memory, of) == content);
  }
  CHECK(to.memory.kept().size() == 3);
  to.exchange.begin(2, {});
  REQUIRE(eventually([&] { return from.count("neighbour lost") == 1; }, kLimit));
}

TEST_CASE("a snapshot of an older round changes nothing at the next node", "[copies]") {
  Node from, to;
  meet(from, to, 2);
  put(from.memory, label(1), "old");
  REQUIRE(eventually([&] { return from.count("neighbour lost") == 1; }, kLimit));
  CHECK(to.memory.kept().empty());
  CHECK_FALSE(from.memory.find(label(1))->copied);
}

TEST_CASE("a node without room refuses, and its sender is told", "[copies]") {
  Node from(1 << 20, 2);
  const bool too_large = GENERATE(true, false);
  Node to(too_large ? 1 << 10 : 1 << 20);
  meet(from, to, 1, 2);
  // Its second rank's place is one that the next node does not have.
  put(from.memory, label(1, too_large ? 0 : 1), text_of(5000, 'r'), Part::own, too_large ? 0 : 1);
  REQUIRE(eventually([&] { return from.count("refused") == 1; }, kLimit));
  CHECK(to.memory.kept().empty());
}

TEST_CASE("a node fetches what its ranks lack, before a round, and is told what is not there", "[copies]") {
  Node here(1 << 20, 2), there(1 << 20, 2);
  const std::string first = text_of(900'000, 'x'), second = text_of(10, 'y');
  put(there.memory, label(7, 0), first);
  put(there.memory, label(7, 1), second, Part::of_neighbour, 1);
  here.exchange.begin(2, CopyMemory::Stamp{1, 7});
  const auto fetch = [&](int round, std::vector<CopyExchange::Wanted> wanted) {
    auto [source, caller] = connected_ends();
    there.exchange.add_caller(std::move(caller));
    here.exchange.fetch(round, "there", std::move(wanted), std::move(source));
  };
  SECTION("all of it") {
    fetch(2, {{0, label(7, 0)}, {1, label(7, 1)}});
    REQUIRE(eventually([&] { return here.fetched(2) == "fetched"; }, kLimit));
    CHECK(content_of(here.memory, label(7, 0)) == first);
    CHECK(content_of(here.memory, label(7, 1)) == second);
    CHECK(here.memory.has_own(1, label(7, 1)));
  }
  SECTION("not a step that has gone") {
    fetch(2, {{0, label(6, 0)}});
    REQUIRE(eventually([&] { return here.fetched(2) == "there: it does not have it any more"; }, kLimit));
  }
  SECTION("not for an older round") {
    fetch(1, {{0, label(7, 0)}});
    here.exchange.copy_here(2, {});
    REQUIRE(eventually([&] { return here.fetched(2) == "fetched"; }, kLimit));
    CHECK(here.fetched(1) == "not yet");
    CHECK(here.memory.kept().empty());
  }
  SECTION("from itself, into the slots of another rank") {
    put(here.memory, label(7, 1), second, Part::of_neighbour, 0);
    here.exchange.copy_here(2, {{0, label(7, 1)}});
    REQUIRE(eventually([&] { return here.fetched(2) == "fetched"; }, kLimit));
    CHECK(here.memory.has_own(0, label(7, 1)));
  }
}

TEST_CASE("a source that is lost in the middle leaves no part of a snapshot", "[copies]") {
  Node here;
  here.exchange.begin(2, {});
  auto [source, other] = connected_ends();
  here.exchange.fetch(2, "there", {{0, label(7)}}, std::move(source));
  const std::string half = encode(CopyHead{CopyKind::snapshot, 2, label(7), 8, 0}) + encode_chunk_head(4) + "half";
  REQUIRE(::send(other.socket.get(), half.data(), half.size(), 0) == static_cast<ssize_t>(half.size()));
  REQUIRE(eventually([&] { return here.memory.wanted(); }, kLimit));  // it is being written
  other.socket = {};
  REQUIRE(eventually([&] { return here.fetched(2) == "there: the other side closed the connection"; }, kLimit));
  CHECK(here.memory.kept().empty());
}

TEST_CASE("a peer that does not read is disconnected, whether it waits or asks on", "[copies]") {
  const bool asks_on = GENERATE(false, true);
  Node node(8 << 20, 1, asks_on ? 10s : 200ms);
  put(node.memory, label(7), std::string(4 << 20, 'x'));
  auto [peer, other] = connected_ends();
  node.exchange.add_caller(std::move(peer));
  const std::string want = encode(CopyHead{CopyKind::want, 2, label(asks_on ? 6 : 7)});
  const auto ask = [&want, fd = other.socket.get()] { return ::send(fd, want.data(), want.size(), MSG_NOSIGNAL) > 0; };
  REQUIRE(ask());
  const std::string why = asks_on ? "it does not read the answers to what it asks" : "it read nothing for 0 s";
  CHECK(eventually(
      [&] {
        for (int i = 0; asks_on && i < 1000 && ask(); ++i) continue;
        return node.count("disconnected : " + why) == 1;
      },
      kLimit));
}

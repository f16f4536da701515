#include "agent/copies/memory_relief.h"

#include <csignal>

#include "tests/support/test.h"

namespace {

Failure failed(FailureClass kind, rendezvous::ExitStatus status) { return {.status = status, .kind = kind}; }

}  // namespace

TEST_CASE("snapshots in memory go only if memory ran out in a round that did not get on with them", "[copies]") {
  constexpr std::uint64_t kBytes = 3 << 20;
  const Failure killed = failed(FailureClass::out_of_memory, {.signal = SIGKILL});
  CHECK(relief_after(killed, false, kBytes) == MemoryRelief::given_back);
  CHECK(relief_after(failed(FailureClass::out_of_memory, {.code = 137}), false, kBytes) == MemoryRelief::given_back);
  CHECK(relief_after(killed, true, kBytes) == MemoryRelief::kept);
  CHECK(relief_after(killed, false, 0) == MemoryRelief::none);
  // By a person, by a GPU's memory, by a limit of the process.
  CHECK(relief_after(failed(FailureClass::crash, {.signal = SIGKILL}), false, kBytes) == MemoryRelief::none);
  CHECK(relief_after(failed(FailureClass::out_of_memory, {.code = 1}), false, kBytes) == MemoryRelief::none);
  CHECK(relief_after(failed(FailureClass::out_of_memory, {.signal = SIGABRT}), false, kBytes) == MemoryRelief::none);
  CHECK(in_words(MemoryRelief::given_back, kBytes).starts_with("3 MiB of this node's memory hold snapshots"));
  CHECK(in_words(MemoryRelief::none, kBytes).empty());
}

// Snapshots in memory: what is kept outlives its writer, whole or not at all.
#include "rendezvous/memory/snapshot_memory.h"

#include <sys/mman.h>

#include <system_error>

#include "tests/support/soak.h"
#include "tests/support/test.h"

namespace {

using Stamp = SnapshotMemory::Stamp;

using Steps = std::vector<std::pair<std::uint64_t, std::string>>;

Steps steps_of(const SnapshotMemory& memory, int area) {
  Steps result;
  for (const auto& kept : memory.kept(area))
    result.emplace_back(kept.stamp.step, memory.read(area, kept).value_or("(gone)"));
  return result;
}

int error_of(const std::function<void()>& part) {
  try {
    part();
  } catch (const std::system_error& error) {
    return error.code().value();
  }
  return 0;
}

std::optional<SnapshotMemory> inherited_by(const std::string& variable) {
  setenv(kSnapshotMemoryVariable, variable.c_str(), 1);
  auto memory = SnapshotMemory::inherited();
  unsetenv(kSnapshotMemoryVariable);
  return memory;
}

}  // namespace

TEST_CASE("memory keeps the last two snapshots of each area", "[memory]") {
  SnapshotMemory memory = SnapshotMemory::create(2, 1 << 20);
  CHECK(memory.kept(0).empty());
  memory.write(0, {1, 10}, {"te", "", "n"}, "note");
  memory.write(0, {1, 11}, {"eleven"});
  CHECK(steps_of(memory, 0) == Steps{{11, "eleven"}, {10, "ten"}});
  CHECK(memory.kept(0)[1].note == "note");
  memory.write(0, {2, 5}, {"five"});  // a later generation goes on from an earlier step
  CHECK(steps_of(memory, 0) == Steps{{5, "five"}, {11, "eleven"}});
  CHECK(memory.kept(0)[0].stamp > memory.kept(0)[1].stamp);
  CHECK(memory.kept(1).empty());
  memory.write(1, {1, 1}, {});
  CHECK(steps_of(memory, 1) == Steps{{1, ""}});
}

TEST_CASE("a large snapshot, which several threads write, is whole", "[memory]") {
  constexpr std::uint64_t kBytes = 37'000'001;
  SnapshotMemory memory = SnapshotMemory::create(1, 2 * kBytes + 1);
  std::string content(kBytes, '\0');
  for (std::size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i * 2'654'435'761u >> 13);
  const std::string_view all = content;
  memory.write(0, {1, 1}, {all.substr(0, 5), all.substr(5, 20'000'000), {}, all.substr(20'000'005)});
  CHECK((memory.read(0, memory.kept(0).at(0)) == content));  // not to be printed
}

TEST_CASE("a snapshot that has been replaced is not read", "[memory]") {
  SnapshotMemory memory = SnapshotMemory::create(1, 4096);
  memory.write(0, {1, 1}, {"one"});
  const auto one = memory.kept(0).at(0);
  memory.write(0, {1, 2}, {"two"});
  CHECK(memory.read(0, one) == "one");
  memory.write(0, {1, 3}, {"six"});
  CHECK_FALSE(memory.read(0, one));
  memory.write(0, {1, 4}, {"ten"});
  memory.write(0, {1, 1}, {"abc"});
  CHECK_FALSE(memory.read(0, one));  // the same stamp, written again
}

TEST_CASE("a snapshot above half of the size is refused, and costs none of the others", "[memory]") {
  SnapshotMemory memory = SnapshotMemory::create(1, 10'001);
  CHECK(memory.snapshot_bytes_max() == 5'000);
  const std::string fits(5'000, 'a'), too_large(5'001, 'b');
  memory.write(0, {1, 1}, {fits});
  memory.write(0, {1, 2}, {fits});
  CHECK(error_of([&] { memory.write(0, {1, 3}, {too_large}); }) == ENOSPC);
  CHECK(error_of([&] { memory.write(1, {1, 3}, {fits}); }) == EINVAL);
  CHECK(steps_of(memory, 0) == Steps{{2, fits}, {1, fits}});
  memory.write(0, {1, 4}, {}, std::string(2 * kSnapshotNoteMax, 'n'));
  CHECK(memory.kept(0).at(0).note == std::string(kSnapshotNoteMax, 'n'));
}

TEST_CASE("an area takes no memory before something is written", "[memory]") {
  const SnapshotMemory memory = SnapshotMemory::create(1'000, std::uint64_t{1} << 40);
  CHECK(memory.kept(999).empty());
  struct stat status {};
  REQUIRE(fstat(memory.fd(), &status) == 0);
  CHECK(status.st_blocks * 512 <= 4096);
}

TEST_CASE("the generation that went on from memory is known", "[memory]") {
  SnapshotMemory memory = SnapshotMemory::create(1, 4096);
  CHECK(memory.adopted_by() == 0);
  memory.adopt(7);
  CHECK(memory.adopted_by() == 7);
}

TEST_CASE("the snapshot that a round goes on from is not the next to be replaced", "[memory]") {
  SnapshotMemory memory = SnapshotMemory::create(1, 4096);
  memory.write(0, {1, 1}, {"one"});
  memory.write(0, {1, 2}, {"two"});
  memory.keep_only(0, {1, 1});
  CHECK(steps_of(memory, 0) == Steps{{1, "one"}});
  memory.write(0, {2, 2}, {"TWO"});
  CHECK(steps_of(memory, 0) == Steps{{2, "TWO"}, {1, "one"}});
}

TEST_CASE("memory belongs to the first run that asks", "[memory]") {
  SnapshotMemory memory = SnapshotMemory::create(1, 4096);
  CHECK(memory.claim(7));
  CHECK_FALSE(memory.claim(8));
  CHECK(memory.claim(7));
}

TEST_CASE("a worker finds the agent's memory by its descriptor, and nothing else", "[memory]") {
  SnapshotMemory memory = SnapshotMemory::create(2, 8192);
  memory.write(1, {3, 4}, {"text"});
  const std::string number = std::to_string(memory.fd());
  for (const std::string& variable : {number, number + ":0", number + ":7"}) {
    const auto found = inherited_by(variable);
    REQUIRE(found);
    CHECK(steps_of(*found, 1) == steps_of(memory, 1));
    CHECK(found->identity() == memory.identity());
  }
  CHECK(SnapshotMemory::create(1, 1).identity() != memory.identity());
  const Fd other(memfd_create("other", 0)), shorter(memfd_create("shorter", 0));
  REQUIRE(ftruncate(shorter.get(), 4096) == 0);
  char head[40];
  REQUIRE(pread(memory.fd(), head, sizeof head, 0) == sizeof head);
  REQUIRE(pwrite(shorter.get(), head, sizeof head, 0) == sizeof head);
  for (const std::string& variable : {std::string(), std::string("x"), "x" + number, number + "x", std::string("-1"),
                                      std::string("999"), std::string("0"), std::string("99999999999999999999"),
                                      std::to_string(other.get()), std::to_string(shorter.get())}) {
    INFO(variable);
    CHECK_FALSE(inherited_by(variable));
  }
  unsetenv(kSnapshotMemoryVariable);
  CHECK_FALSE(SnapshotMemory::inherited());
}

TEST_CASE("nobody can truncate the memory", "[memory]") {
  const SnapshotMemory memory = SnapshotMemory::create(1, 4096);
  CHECK(ftruncate(memory.fd(), 0) != 0);
  CHECK(ftruncate(memory.fd(), 1 << 30) != 0);
}

TEST_CASE("memory of other local ranks has the machine's snapshots, and none of theirs", "[memory]") {
  SnapshotMemory memory = SnapshotMemory::create(3, 1 << 20);
  const std::string large(300'000, 'x');
  memory.write(0, {1, 7}, {"small"}, "a note");
  memory.write(0, {1, 8}, {large});
  memory.write(2, {1, 8}, {"of local rank 1"});
  memory.adopt(5);
  CHECK(memory.claim(77));
  for (const int areas : {2, 9}) {
    SnapshotMemory other = memory.with_areas(areas);
    CHECK(other.identity() == memory.identity());
    CHECK(other.adopted_by() == 5);
    CHECK_FALSE(other.claim(78));
    const auto kept = other.kept(0);
    REQUIRE(kept.size() == 2);
    CHECK(other.read(0, kept[0]) == large);
    CHECK(kept[1].note == "a note");
    CHECK(other.read(0, kept[1]) == "small");
    for (int area = 1; area < areas; ++area) CHECK(other.kept(area).empty());
    other.write(areas - 1, {2, 9}, {"more"});
    CHECK(other.kept(areas - 1).size() == 1);
    CHECK_THROWS_AS(other.write(areas, {2, 9}, {"more"}), std::system_error);
    struct stat facts {};
    REQUIRE(fstat(other.fd(), &facts) == 0);
    CHECK(facts.st_blocks * 512 < 1 << 20);  // sparse
  }
}

// The writer tells each step through a pipe when it is kept.
TEST_CASE("a writer that is killed at any moment leaves whole snapshots, at most one step behind",
          "[memory][not-tsan]") {
  std::mt19937_64 random(test::first_seed());
  constexpr std::size_t kBytes = 3 << 20;
  SnapshotMemory memory = SnapshotMemory::create(1, 2 * kBytes);
  std::uint64_t step = 0;
  for (int kill_number = 0; kill_number < test::often(50); ++kill_number) {
    int told[2];
    REQUIRE(pipe2(told, O_CLOEXEC) == 0);
    const pid_t writer = fork();
    REQUIRE(writer >= 0);
    if (writer == 0) {
      const std::string half(kBytes / 2, '\0');
      for (std::uint64_t next = step + 1;; ++next) {
        const std::string content(kBytes / 2, static_cast<char>('a' + next % 23));
        memory.write(0, {1, next}, {content, content});
        if (write(told[1], &next, sizeof next) != sizeof next) _exit(1);
      }
    }
    close(told[1]);
    std::uint64_t last = 0;
    while (last < step + 1 + random() % 3 && read(told[0], &last, sizeof last) == sizeof last) continue;
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 3'000));
    kill(writer, SIGKILL);
    waitpid(writer, nullptr, 0);
    while (read(told[0], &last, sizeof last) == sizeof last) continue;
    close(told[0]);
    const auto kept = memory.kept(0);
    REQUIRE_FALSE(kept.empty());
    step = kept[0].stamp.step;
    CHECK((step == last || step == last + 1));
    for (const auto& one : kept) {
      const std::string content = memory.read(0, one).value();
      CHECK(content == std::string(kBytes, static_cast<char>('a' + one.stamp.step % 23)));
    }
  }
}

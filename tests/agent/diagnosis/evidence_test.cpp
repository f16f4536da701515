// What the machine tells of a death, read from made-up trees and real files.
#include "agent/diagnosis/evidence.h"

#include <elf.h>

#include "tests/support/test.h"

namespace {

void put(const TempFolder& root, const std::string& path, const std::string& text) {
  fs::create_directories((root / path).parent_path());
  root.write(path, text);
}

WallTime wall_now() { return std::chrono::system_clock::now(); }

}  // namespace

TEST_CASE("the counters of version 1 memory groups are read, limits of those around included", "[evidence]") {
  const TempFolder root;
  put(root, "proc/self/cgroup", "4:memory:/a/b\n0::/\n");
  put(root, "proc/self/mountinfo", "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
  put(root, "proc/vmstat", "nr_free_pages 1\noom_kill 7\n");
  put(root, "sys/fs/cgroup/memory/a/b/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n");
  put(root, "sys/fs/cgroup/memory/a/b/memory.failcnt", "0\n");
  put(root, "sys/fs/cgroup/memory/a/memory.failcnt", "5\n");
  put(root, "sys/fs/cgroup/memory/a/memory.limit_in_bytes", "67108864\n");
  const OomCounts counts = read_oom_counts(root.path());
  REQUIRE(counts.groups.size() == 3);
  CHECK(counts.groups[0].name == "/a/b");
  CHECK(counts.groups[0].kills == 2);
  CHECK_FALSE(counts.groups[0].limit_bytes);
  CHECK(counts.groups[1].limit_hits == 5);
  CHECK(counts.groups[1].limit_bytes == 67108864u);
  CHECK(read_memory_limit(root.path()) == 67108864u);
  CHECK(counts.machine == 7u);
}

TEST_CASE("the counters of version 2 memory groups are read, and a machine that tells nothing is no error",
          "[evidence]") {
  const TempFolder root;
  CHECK(read_oom_counts(root.path()).groups.empty());
  CHECK_FALSE(read_memory_limit(root.path()));
  put(root, "proc/self/cgroup", "0::/job\n");
  put(root, "proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  put(root, "sys/fs/cgroup/job/memory.events", "low 0\nhigh 0\nmax 9\noom 3\noom_kill 3\noom_group_kill 0\n");
  put(root, "sys/fs/cgroup/job/memory.events.local", "low 0\nhigh 0\nmax 9\noom 2\noom_kill 3\n");
  put(root, "sys/fs/cgroup/job/memory.max", "1073741824\n");
  const OomCounts counts = read_oom_counts(root.path());
  REQUIRE(counts.groups.size() == 2);
  CHECK(counts.groups[0].kills == 3);
  CHECK(counts.groups[0].limit_hits == 2);
  CHECK(counts.groups[0].limit_bytes == std::uint64_t{1} << 30);
  put(root, "sys/fs/cgroup/memory.max", "536870912\n");
  CHECK(read_memory_limit(root.path()) == std::uint64_t{1} << 29);
  CHECK_FALSE(counts.machine);
}

TEST_CASE("a core file counts only if it is there, plain, and from this worker's time", "[evidence]") {
  const TempFolder folder;
  const CorePlace place{{}, folder / "core.*.4711"};
  CHECK(find_core(place, wall_now() - 1h).path.empty());
  folder.write("core.old.4711", "xx");
  REQUIRE(fs::create_directory(folder / "core.folder.4711"));
  CHECK(find_core(place, wall_now() + 1h).path.empty());
  const FoundCore found = find_core(place, wall_now() - 1h);
  CHECK(found.path == folder / "core.old.4711");
  CHECK(found.bytes == 2);
  CHECK(find_core({}, wall_now() - 1h).path.empty());
}

TEST_CASE("a program's file is looked at as exec would see it", "[evidence]") {
  const TempFolder folder;
  folder.write("script", "#!/bin/sh\n", true);
  folder.write("shut", "#!/bin/sh\n");
  fs::create_symlink("/nonsuch/target", folder / "link");
  const ProgramFile script = look_at_program(folder / "script");
  CHECK(script.exists);
  CHECK(script.runnable);
  CHECK(script.head == "#!/bin/sh\n");
  CHECK_FALSE(look_at_program(folder / "shut").runnable);
  CHECK_FALSE(look_at_program(folder / "gone").exists);
  CHECK(look_at_program(folder / "link").dangling_to == "/nonsuch/target");
  CHECK(look_at_program(folder.path()).folder);
  CHECK(look_at_program("/bin/sh").head.starts_with(ELFMAG));
  CHECK(own_machine() != EM_NONE);
}

#include "agent/diagnosis/diagnosis.h"

#include <elf.h>

#include "agent/diagnosis/core_file.h"
#include "agent/diagnosis/exec_failure.h"
#include "agent/diagnosis/last_lines.h"
#include "agent/process/groups/control_groups.h"
#include "tests/support/test.h"

namespace {

constexpr const char* kCgroup1 = "9:name=systemd:/\n4:memory:/jobs/seven\n3:cpuset:/\n0::/\n";
constexpr const char* kMounts1 =
    "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"
    "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n"
    "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
constexpr const char* kMounts2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";

using Names = std::vector<std::string>;

Names memory_groups(const std::string& cgroup, const std::string& mounts) {
  Names out;
  for (const ControlGroup& group : control_groups("memory", cgroup, mounts)) out.push_back(group.folder);
  return out;
}

OomCounts counts(std::vector<MemoryGroup> groups, std::uint64_t machine) { return {std::move(groups), machine}; }

std::string program(std::uint16_t machine, const std::string& loader, unsigned char order = ELFDATA2LSB) {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = order;
  header.e_machine = order == ELFDATA2LSB ? machine : static_cast<std::uint16_t>(machine << 8 | machine >> 8);
  header.e_phoff = sizeof header;
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_phnum = loader.empty() ? 0 : 1;
  Elf64_Phdr segment{};
  segment.p_type = PT_INTERP;
  segment.p_offset = sizeof header + sizeof segment;
  segment.p_filesz = loader.size() + 1;
  return std::string(reinterpret_cast<const char*>(&header), sizeof header) +
         std::string(reinterpret_cast<const char*>(&segment), sizeof segment) + loader + '\0';
}

// A disk with a few files on it.
struct Disk {
  std::map<std::string, ProgramFile> files = {};
  void add(const std::string& path, const std::string& head) {
    files[path] = {.path = path, .exists = true, .runnable = true, .head = head};
  }
  std::string why(int error, const std::string& path) const {
    const auto look_at = [this](const std::string& p) {
      const auto found = files.find(p);
      return found == files.end() ? ProgramFile{.path = p} : found->second;
    };
    return why_not_started(error, look_at(path), EM_X86_64, look_at);
  }
};

std::string meaning(const ExitStatus& status, std::vector<std::string> lines) {
  return meaning_of_lines(status, lines);
}

}  // namespace

TEST_CASE("the memory groups that limit us are found, version 1 and 2", "[oom_count]") {
  CHECK(memory_groups(kCgroup1, kMounts1) ==
        Names{"/sys/fs/cgroup/memory/jobs/seven", "/sys/fs/cgroup/memory/jobs", "/sys/fs/cgroup/memory"});
  CHECK(control_groups("memory", kCgroup1, kMounts1).front().version1);
  CHECK(memory_groups("0::/a.slice\n", kMounts2) == Names{"/sys/fs/cgroup/a.slice", "/sys/fs/cgroup"});
  CHECK_FALSE(control_groups("memory", "0::/a.slice\n", kMounts2).front().version1);
  CHECK(memory_groups("0::/a:b\n", kMounts2) == Names{"/sys/fs/cgroup/a:b", "/sys/fs/cgroup"});
  CHECK(memory_groups("", "").empty());
  CHECK(memory_groups("rubbish\n0::", "rubbish - ").empty());
}

TEST_CASE("inside a container the group's files lie at the mount's root, whatever its name is outside", "[oom_count]") {
  const std::string mounts = "35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
  CHECK(memory_groups("4:memory:/docker/abc\n", mounts) == Names{"/sys/fs/cgroup/memory"});
  CHECK(memory_groups("4:memory:/docker/abcd\n", mounts) == Names{"/sys/fs/cgroup/memory"});
  CHECK(memory_groups("4:memory:/docker/abc/in\n", mounts) ==
        Names{"/sys/fs/cgroup/memory/in", "/sys/fs/cgroup/memory"});
  CHECK(memory_groups("0::/../other\n", "30 23 0:26 /ns /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n") ==
        Names{"/sys/fs/cgroup"});
}

TEST_CASE("counters and limits are read as the kernel writes them", "[oom_count]") {
  CHECK(counter("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n", "oom_kill") == 3u);
  CHECK(counter("a_group_oom_kill 7\noom_kill 3\n", "oom_kill") == 3u);
  CHECK_FALSE(counter("low 0\n", "oom_kill"));
  CHECK(memory_limit("67108864\n") == 67108864u);
  CHECK_FALSE(memory_limit("max\n"));
  CHECK_FALSE(memory_limit("9223372036854771712\n"));
  CHECK(bytes_in_words(64u << 20) == "64 MiB");
  CHECK(bytes_in_words(std::uint64_t{3} << 29) == "1.5 GiB");
}

TEST_CASE("a kill for memory is told with the group's limit", "[oom_count]") {
  const auto before = counts({{"/job", 0, 5, 64 << 20}, {"/", 7, 0, {}}}, 7);
  CHECK(out_of_memory(before, before).empty());
  CHECK(out_of_memory(before, counts({{"/job", 1, 9, 64 << 20}, {"/", 7, 0, {}}}, 8)) ==
        "the kernel killed processes for lack of memory in control group /job (its count of such kills rose from 0 to "
        "1): the group may use 64 MiB");
}

TEST_CASE("the limit may be that of a group around ours, or the machine's memory", "[oom_count]") {
  const auto before = counts({{"/a/b", 0, 0, {}}, {"/a", 0, 0, 64 << 20}}, 0);
  CHECK(out_of_memory(before, counts({{"/a/b", 1, 0, {}}, {"/a", 0, 3, 64 << 20}}, 1)) ==
        "the kernel killed processes for lack of memory in control group /a/b (its count of such kills rose from 0 to "
        "1): group /a may use 64 MiB");
  CHECK(out_of_memory(before, counts({{"/a/b", 1, 0, {}}, {"/a", 0, 0, 64 << 20}}, 1))
            .ends_with("rose from 0 to 1); the narrowest limit is 64 MiB, of group /a"));
  const auto unlimited = counts({{"/a/b", 0, 0, {}}}, 0);
  CHECK(out_of_memory(unlimited, counts({{"/a/b", 1, 0, {}}}, 1))
            .ends_with("rose from 0 to 1); no group has a limit, so the whole machine was out of memory"));
}

TEST_CASE("a kill elsewhere on the machine is told as what it is", "[oom_count]") {
  const auto before = counts({{"/job", 0, 0, {}}}, 4);
  CHECK(out_of_memory(before, counts({{"/job", 0, 0, {}}}, 5)) ==
        "the kernel killed processes for lack of memory on this machine meanwhile (its count of such kills rose from 4 "
        "to 5), outside ddprun's own control group");
  CHECK(out_of_memory({}, counts({{"/job", 9, 0, {}}}, 9)).empty());  // not read before: nothing is known
}

TEST_CASE("the surest explanation comes first", "[diagnosis]") {
  Clues clues{.status = {.signal = SIGKILL}};
  CHECK(meaning_of(clues) == "often sent by the kernel or the scheduler because memory ran out");
  clues.memory_before = counts({{"/job", 0, 0, {}}}, 0);
  clues.memory_after = clues.memory_before;
  CHECK(meaning_of(clues) ==
        "the kernel counted no out-of-memory kill; most likely a person, a scheduler or another program sent it");
  clues.memory_after = counts({{"/job", 1, 0, {}}}, 1);
  CHECK(meaning_of(clues).starts_with(
      "memory ran out: the kernel killed processes for lack of memory in control group /job"));
  clues.timer = ExpiredTimer{1, "step", {}, 3s, SIGKILL};
  CHECK(meaning_of(clues) == "its timer 'step' expired after 3.0 s; as it had requested, it was sent SIGKILL");
}

TEST_CASE("nobody is said for sure to have sent a signal, as the worker itself may have", "[diagnosis]") {
  for (const int signal : {SIGKILL, SIGTERM, SIGINT, SIGQUIT, SIGHUP}) {
    const std::string meaning = meaning_of({.status = {.signal = signal}});
    CAPTURE(meaning);
    CHECK_THAT(meaning, !Contains("outside") && (Contains("most likely") || Contains("often")));
  }
  CHECK(meaning_of({.status = {.signal = SIGSEGV}}) == "it accessed memory that it may not");  // its own doing
}

TEST_CASE("a process of a worker that was killed for memory is a likely cause of its failure", "[diagnosis]") {
  Clues clues{.status = {.code = 1}};
  clues.memory_before = counts({{"/job", 0, 0, {}}}, 0);
  clues.memory_after = counts({{"/job", 1, 0, {}}}, 1);
  CHECK(meaning_of(clues).starts_with("perhaps memory ran out in one of its processes: "));
  clues.status.code = 137;
  CHECK(meaning_of(clues).starts_with("memory ran out: "));
  clues.status.code = 1;
  clues.last_lines = {"ModuleNotFoundError: No module named 'x'"};
  CHECK(meaning_of(clues).starts_with("the module x is not found"));
}

TEST_CASE("a core file is looked for where the kernel's pattern puts it", "[core_file]") {
  CoreFacts facts{.folder = "/work/a*b", .host = "node7", .pid = 4711, .signal = SIGSEGV, .user = 1000, .group = 100};
  const auto path = [&](const char* pattern) {
    facts.pattern = pattern;
    return core_place(facts).path;
  };
  CHECK(path("core\n") == "/work/a\\*b/core");
  CHECK(path("/var/cores/core.%p\n") == "/var/cores/core.4711");
  CHECK(path("/c/%e-%E-%t-%p-%u-%g-%s-%h-%%\n") == "/c/*-*-*-4711-1000-100-11-node7-%");
  CHECK(path("") == "/work/a\\*b/core");
  CHECK(path("/x/core.%") == "/x/core.");
  facts.uses_pid = true;
  CHECK(path("/x/core") == "/x/core.4711");
  CHECK(path("/x/core.%p") == "/x/core.4711");
}

TEST_CASE("a program that takes cores is named, with the way to them", "[core_file]") {
  const auto place = core_place({.pattern = "|/usr/lib/systemd/systemd-coredump %P %u %g\n", .pid = 4711});
  CHECK(place.handler == "/usr/lib/systemd/systemd-coredump");
  CHECK(handler_in_words(place.handler, 4711) == "systemd-coredump collects core files here: coredumpctl info 4711");
  CHECK(handler_in_words("/opt/catch", 1) == "this machine passes core files to /opt/catch");
  CHECK(core_place({.pattern = "|"}).path.empty());
}

TEST_CASE("what could not be started is told with what to mend", "[exec_failure]") {
  Disk disk;
  disk.add("bad", "#!/usr/bin/pythn -u\nprint()\n");
  disk.add("crlf", "#!/bin/sh\r\necho\r\n");
  disk.add("empty", "");
  disk.add("text", "echo hello\n");
  disk.add("nameless", "#!\n");
  disk.add("musl", program(EM_X86_64, "/lib/ld-musl-x86_64.so.1"));
  disk.add("arm", program(EM_AARCH64, ""));
  disk.add("big", program(EM_S390, "", ELFDATA2MSB));
  disk.add("cut", program(EM_X86_64, "").substr(0, 30));
  disk.add("outer", "#! inner\n");
  disk.add("inner", "#!/usr/bin/pythn\n");
  disk.add("circle", "#!circle\n");
  disk.files["folder"] = {.path = "folder", .exists = true, .folder = true, .runnable = true};
  disk.files["shut"] = {.path = "shut", .exists = true};
  disk.files["noexec"] = {.path = "noexec", .exists = true, .runnable = true, .on_noexec = true};
  disk.files["dangling"] = {.path = "dangling", .dangling_to = "/gone"};
  disk.add("shut-script", "#!shut\n");

  CHECK(disk.why(ENOENT, "gone") == "there is no such file");
  CHECK(disk.why(ENOENT, "dangling") == "it is a link to /gone, which is not there");
  CHECK(disk.why(ENOENT, "bad") == "its first line asks for the interpreter /usr/bin/pythn, which is not there");
  CHECK(disk.why(ENOENT, "crlf") ==
        "its first line ends in a carriage return, as Windows writes it, so the interpreter '/bin/sh\\r' is not found: "
        "remove the carriage returns (dos2unix)");
  CHECK(disk.why(ENOENT, "outer") ==
        "its interpreter inner: its first line asks for the interpreter /usr/bin/pythn, which is not there");
  CHECK(
      disk.why(ENOENT, "musl") ==
      "it needs the loader /lib/ld-musl-x86_64.so.1, which is not there: it was built for a system with the C library "
      "musl");
  CHECK(disk.why(EACCES, "shut") == "it has no run permission: chmod +x shut");
  CHECK(disk.why(EACCES, "shut-script") == "its interpreter shut: it has no run permission: chmod +x shut");
  CHECK(disk.why(EACCES, "folder") == "it is a folder: name the program inside it");
  CHECK(disk.why(EACCES, "noexec").starts_with("its file system is mounted noexec"));
  CHECK(disk.why(ENOEXEC, "empty") == "the file is empty");
  CHECK(disk.why(ENOEXEC, "text").find("#!/bin/sh") != std::string::npos);
  CHECK(disk.why(ENOEXEC, "nameless") == "its first line, #!, names no interpreter");
  CHECK(disk.why(ENOEXEC, "arm") == "it is built for aarch64, and this machine is x86_64");
  CHECK(disk.why(ENOEXEC, "big") == "it is built for s390x, and this machine is x86_64");
  CHECK(disk.why(ENOEXEC, "cut").starts_with("it is not a complete program"));
  CHECK(disk.why(ELOOP, "circle").find("name each other") != std::string::npos);
  CHECK(disk.why(ENOEXEC, "circle").find("name each other") != std::string::npos);
  CHECK(disk.why(ETXTBSY, "text").starts_with("it is open for writing"));
  CHECK(disk.why(E2BIG, "text").starts_with("its arguments and environment are too long"));
  CHECK(disk.why(EAGAIN, "text").find("ulimit -u") != std::string::npos);
  CHECK(disk.why(EDOM, "text") == std::strerror(EDOM));
}

TEST_CASE("a program's header that lies about its sizes is survived", "[exec_failure]") {
  std::string lying = program(EM_X86_64, "/lib/ld.so");
  for (std::size_t at = 0; at < lying.size(); ++at)
    for (const char byte : {'\0', '\x7f', '\xff'}) {
      Disk disk;
      std::string head = lying;
      head[at] = byte;
      disk.add("lying", head);
      for (const int error : {ENOENT, ENOEXEC, ELIBBAD}) CHECK_FALSE(disk.why(error, "lying").empty());
    }
}

TEST_CASE("well-known last lines are told with their remedy", "[last_lines]") {
  CHECK(meaning({.code = 127},
                {"./t: error while loading shared libraries: libfoo.so.1: cannot open shared object file: No such file "
                 "or directory"}) ==
        "the shared library libfoo.so.1 is not found: install it, or put its folder into LD_LIBRARY_PATH; ldd shows "
        "what else is missing");
  CHECK(meaning({.code = 127}, {"./t: symbol lookup error: ./libx.so: undefined symbol: frob"})
            .starts_with("the symbol frob is in none of the loaded libraries"));
  CHECK(meaning({.code = 1}, {"./t: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.99' not found (required by ./t)"})
            .starts_with("it was built for a newer system: GLIBC_2.99 is not"));
  CHECK(meaning({.code = 1}, {"Traceback", "ModuleNotFoundError: No module named 'torch'"})
            .starts_with("the module torch is not found by this Python"));
  CHECK(meaning({.code = 1}, {"/usr/bin/python3: No module named nonsuch"}).starts_with("the module nonsuch is"));
  CHECK(meaning({.code = 1}, {"python3: No module named a.__main__; 'a' is a package and cannot be directly executed"})
            .starts_with("the module a.__main__ is not found"));
  CHECK(meaning({.code = 1}, {"ImportError: libcudart.so.12: cannot open shared object file: No such file"})
            .starts_with("the shared library libcudart.so.12 is not found"));
  CHECK(meaning({.code = 127}, {"sh: 1: nonsuch: not found"}) ==
        "the command nonsuch is not found: install it, or check PATH");
  CHECK(meaning({.code = 127}, {"bash: line 1: nonsuch: command not found"}) ==
        "the command nonsuch is not found: install it, or check PATH");
  CHECK(meaning({.code = 126}, {"sh: 1: ./shut: Permission denied"}) ==
        "./shut has no run permission: chmod +x ./shut");
  CHECK(meaning({.signal = SIGABRT},
                {"terminate called after throwing an instance of 'std::runtime_error'", "  what():  no such port"}) ==
        "it did not catch its exception std::runtime_error: no such port");
  CHECK(meaning({.signal = SIGABRT},
                {"terminate called after throwing an instance of 'std::bad_alloc'", "  what():  std::bad_alloc"})
            .starts_with("memory ran out: an allocation failed"));
  for (const char* line :
       {"train: rank 1: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", "train: CUDA error: out of memory"})
    CHECK(meaning({.code = 1}, {line}).starts_with("the GPU's memory ran out: CUDA out of memory"));
  CHECK(meaning({.code = 1}, {"OSError: [Errno 28] No space left on device"}).starts_with("a disk is full"));
}

TEST_CASE("a program that wants its local rank as an argument is told how to get it", "[last_lines]") {
  const auto of = [](const std::string& complaint) { return meaning({.code = 2}, {"t.py: error: " + complaint}); };
  CHECK(of("the following arguments are required: --local_rank") ==
        "it expects its local rank as an argument: put '--local_rank=${local_rank}' after the program's name");
  CHECK(of("the following arguments are required: --lr, --local-rank")
            .ends_with("put '--local-rank=${local_rank}' after the program's name"));
  CHECK(of("unrecognized arguments: --local-rank=0") ==
        "it does not know --local-rank: leave it out, as LOCAL_RANK is in the environment, or put "
        "'--local_rank=${local_rank}' after the program's name");
  CHECK(of("unrecognized arguments: --local_rank 0")
            .ends_with("put '--local-rank=${local_rank}' after the program's name"));
  CHECK(of("unrecognized arguments: --lr").find("local") == std::string::npos);
}

TEST_CASE("of a missing module it is told which Python looked for it, and which one has it", "[last_lines]") {
  const auto meaning_by = [](const PythonHere& python) {
    return meaning_of_lines({.code = 1}, {"ModuleNotFoundError: No module named 'torch.nn'"}, python);
  };
  CHECK(
      meaning_by({}) ==
      "the module torch.nn is not found by this Python: install it into the environment of this interpreter, or check "
      "PYTHONPATH");
  CHECK(meaning_by({.ran = "/usr/bin/python3", .other_with = [](const std::string&) { return ""; }}) ==
        "the module torch.nn is not found by /usr/bin/python3: install it into the environment of this interpreter, or "
        "check PYTHONPATH");
  const auto venv = [](const std::string& module) { return module == "torch.nn" ? "/venv/bin/python3" : ""; };
  CHECK(meaning_by({.ran = "/usr/bin/python3", .other_with = venv}) ==
        "the module torch.nn is not found by /usr/bin/python3, but /venv/bin/python3 has it: activate its environment, "
        "or set PYTHON_EXEC=/venv/bin/python3");
}

TEST_CASE("a process that ended beside a thread of its own is told so, where it was aborted", "[last_lines]") {
  const std::vector<std::string> lines{"step 17", "done.terminate called without an active exception"};
  CHECK(meaning({.signal = SIGABRT}, lines) ==
        "it ended while one of its threads still ran; with gloo, a barrier before destroy_process_group lets the "
        "thread end first");
  for (const ExitStatus& other : {ExitStatus{.code = 1}, ExitStatus{.code = 127}, ExitStatus{.signal = SIGSEGV}})
    CHECK(meaning(other, lines).empty());
  CHECK(meaning({.signal = SIGABRT}, {"log: terminate called without an active exception, says the page"}).empty());
}

TEST_CASE("failures are compared by the last line that says something, whichever rank it is", "[last_lines]") {
  CHECK(last_line_to_compare({}).empty());
  CHECK(last_line_to_compare({"", "  "}).empty());
  CHECK(last_line_to_compare({"Traceback", "KeyError: 'lr'", ""}) == "KeyError: 'lr'");
  CHECK(last_line_to_compare({"[rank3]: KeyError: 'lr'"}) == last_line_to_compare({"[rank11]: KeyError: 'lr'"}));
  for (const char* other : {"[rank]: x", "[rank3] x", "[rank3]:x", "[rank"})
    CHECK(last_line_to_compare({other}) == other);
  CHECK(last_line_to_compare({std::string(2000, 'x')}).size() <= rendezvous::kLastLineMax);
}

TEST_CASE("unknown last lines mean nothing", "[last_lines]") {
  CHECK(meaning({.code = 1}, {}).empty());
  CHECK(meaning({.code = 1}, {"", "step 17", "sh: 1: nonsuch: not found"}).empty());
  CHECK(meaning({.code = 127}, {"not found", ": not found", "Permission denied"}).empty());
}

TEST_CASE("the last words of a program that cannot begin are known, and only the last ones", "[diagnosis]") {
  const ExitStatus failed{.code = 1};
  for (const std::string line :
       {"ModuleNotFoundError: No module named 'nonsuch'", "SyntaxError: invalid syntax",
        "[rank1]: FileNotFoundError: [Errno 2] No such file or directory: 'data/train'",
        "ImportError: cannot import name 'x' from 'y'", "bdb.BdbQuit", "EOFError: EOF when reading a line"}) {
    CAPTURE(line);
    CHECK(cannot_begin(failed, {"Traceback (most recent call last):", line}));
    CHECK_FALSE(cannot_begin(failed, {line, "RuntimeError: connection reset"}));  // a warning, then something else
    CHECK_FALSE(cannot_begin({}, {line}));
    CHECK(class_of({.status = failed, .last_lines = {line}}, false) == FailureClass::start);
    CHECK(class_of({.status = failed, .last_lines = {line}}, true) == FailureClass::error);
  }
  CHECK(
      cannot_begin(failed, {"RuntimeError: Error(s) in loading state_dict for Net:", "  size mismatch for fc.weight"}));
  CHECK(cannot_begin({.code = 127}, {"sh: 1: nonsuch: not found"}));
  CHECK_FALSE(cannot_begin(failed, {"bind: Address already in use"}));
  CHECK_FALSE(cannot_begin(failed, {"EOFError: Ran out of input"}));  // of a pickle
  CHECK_FALSE(cannot_begin(failed, {}));
}

TEST_CASE("lines about how ranks meet are told from those of any other failure", "[diagnosis]") {
  for (const char* line :
       {"[rank1]: ConnectionRefusedError: [Errno 111] Connection refused",
        "torch.distributed.DistNetworkError: The client socket has timed out after 60s while trying to connect to (a, "
        "1)",
        "torch.distributed.DistStoreError: wait timeout after 300000ms", "bind: Address already in use",
        "ValueError: Error initializing torch.distributed using env:// rendezvous: environment variable RANK expected",
        "RuntimeError: cannot reach the store", "RuntimeError: Default process group has not been initialized",
        "KeyError: 'MASTER_ADDR'", "AssertionError: WORLD_SIZE is 1", "KeyError: 'LOCAL_RANK'"}) {
    CAPTURE(line);
    CHECK(is_about_meeting({"Traceback (most recent call last):", line}));
  }
  for (const char* line :
       {"ZeroDivisionError: division by zero", "KeyError: 'lr'", "RuntimeError: cannot restore the model",
        "  File \"/home/me/store/connect.py\", line 3, in <module>", "[rank0]:     store = connect(RANK)",
        "usage: train.py [-h] [--timeout S]", "train.py: error: unrecognized arguments: --lr",
        "[rank0]:[W1128 ProcessGroupNCCL.cpp:1496] Warning: WARNING: destroy_process_group() was not called before "
        "program exit, which can leak resources.",
        "ValueError: FRANKFURT"}) {
    CAPTURE(line);
    CHECK_FALSE(is_about_meeting({line}));
  }
  CHECK_FALSE(is_about_meeting({}));
}

TEST_CASE("the error of a traceback is told where the lines end with it", "[diagnosis]") {
  const std::string frame = "  File \"a.py\", line 1, in f";
  CHECK(error_of_traceback({"begin", "Traceback (most recent call last):", "[rank1]: " + frame, "[rank1]:     g()",
                            "[rank1]: ValueError: two", "[W1128 23:09:22.399 ProcessGroup.cpp:1] Warning: x", ""}) ==
        "ValueError: two");
  CHECK(error_of_traceback({frame, "KeyError: 1", "During handling of it, another one:", frame, "    h()",
                            "IndexError: 2"}) == "IndexError: 2");
  CHECK(error_of_traceback({"no traceback", "Error: 1"}).empty());
  CHECK(error_of_traceback({frame, "OSError: one that was caught", "loss is nan, giving up"}).empty());
  CHECK(error_of_traceback({frame, "ValueError: two", "lines"}).empty());
  CHECK(error_of_traceback({frame, "    g()"}).empty());
  CHECK(error_of_traceback({"Fatal Python error: Segmentation fault", "Current thread 0x7f (most recent call first):",
                            frame, "Thread 0x7e (most recent call first):", frame})
            .empty());
}

TEST_CASE("the place of a traceback is its innermost line", "[diagnosis]") {
  CHECK(place_of_traceback({"  File \"/a/train.py\", line 4, in <module>", "    f()",
                            "  File \"/a/b/f.py\", line 31, in f", "ValueError: x"}) == "f.py:31");
  CHECK(place_of_traceback({"[rank0]:   File \"/a/train.py\", line 4", "SyntaxError: x"}) == "train.py:4");
  CHECK(place_of_traceback({"  File \"/a/train.py\", line 4, in <module>",
                            "  File \"/usr/lib/python3.13/bdb.py\", line 90"}) == "train.py:4");
  CHECK(place_of_traceback({"  File \"/usr/lib/python3.13/bdb.py\", line 90"}) == "bdb.py:90");
  CHECK(place_of_traceback({"ValueError: x", "File of data, line 3"}).empty());
}

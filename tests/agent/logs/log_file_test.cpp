// Log files on the disk: appended to, turned over when full, and where they lie.
#include <sys/resource.h>

#include "agent/logs/log_file.h"
#include "agent/logs/log_layout.h"
#include "rendezvous/base/error.h"
#include "tests/support/test.h"

namespace {

StreamSpec both() { return {.everyone = kBothStreams, .items = {}}; }

// While it lives no file of this process may grow beyond `bytes`: what a full disk looks like.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit small{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
  }
  ~FullDisk() { setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

}  // namespace

TEST_CASE("a log file is appended to", "[log_file]") {
  const TempFolder folder;
  for (int run = 1; run <= 2; ++run) CHECK(LogFile(folder / "a.log").write("run\n") == 0);
  CHECK(read_file(folder / "a.log") == "run\nrun\n");
}

TEST_CASE("neither a link nor a pipe at a log file's place is written to, and neither stops us", "[log_file]") {
  const TempFolder folder;
  const fs::path secret = folder.write("secret", "mine\n");
  fs::create_symlink(secret, folder / "link.log");
  REQUIRE(mkfifo((folder / "pipe.log").c_str(), 0600) == 0);
  CHECK(has(why_unwritable(LogFile(folder / "link.log").write("run\n")), "symbolic link"));
  CHECK(has(why_unwritable(LogFile(folder / "pipe.log").write("run\n")), "not a regular"));
  CHECK_FALSE(open_to_append(folder / "pipe.log"));
  const Fd reader(::open((folder / "pipe.log").c_str(), O_RDONLY | O_NONBLOCK));
  CHECK(has(why_unwritable(LogFile(folder / "pipe.log").write("run\n")), "not a regular"));  // one that is read, too
  CHECK(read_file(secret) == "mine\n");
  const Fd plain = open_to_append(folder / "plain.log");
  CHECK((fcntl(plain.get(), F_GETFL) & O_NONBLOCK) == 0);  // a worker gets it
}

TEST_CASE("a full log file makes room at a line's end, and the oldest goes", "[log_file]") {
  const TempFolder folder;
  LogFile file(folder / "a.log", {10, 2});
  for (const char* lines : {"1234\n", "5678\n", "ab\n", "cdef\nghijk\nl\n", "mnopq\n"}) CHECK(file.write(lines) == 0);
  CHECK(read_file(folder / "a.log") == "mnopq\n");
  CHECK(read_file(folder / "a.log.1") == "ghijk\nl\n");
  CHECK(read_file(folder / "a.log.2") == "ab\ncdef\n");
  CHECK_FALSE(fs::exists(folder / "a.log.3"));
}

TEST_CASE("a line longer than the limit is cut, and nothing of it lost", "[log_file]") {
  const TempFolder folder;
  LogFile file(folder / "a.log", {4, 9});
  CHECK(file.write("x\n") == 0);
  CHECK(file.write("123456789\n") == 0);
  CHECK(read_file(folder / "a.log.3") == "x\n");
  CHECK(read_file(folder / "a.log.2") + read_file(folder / "a.log.1") + read_file(folder / "a.log") == "123456789\n");
}

TEST_CASE("a log file of an earlier run counts towards the limit, and is kept only if files are to be kept",
          "[log_file]") {
  const TempFolder folder;
  const int kept = GENERATE(1, 0);
  folder.write("a.log", "123456789\n");
  LogFile file(folder / "a.log", {10, kept});
  CHECK(file.write("new\n") == 0);
  CHECK(read_file(folder / "a.log") == "new\n");
  CHECK(read_file(folder / "a.log.1") == (kept ? "123456789\n" : ""));
}

TEST_CASE("a full disk costs what is written meanwhile, and the file says how much", "[log_file]") {
  const TempFolder folder;
  LogFile file(folder / "a.log");
  {
    const FullDisk disk(6);
    CHECK(file.write("1234\n") == 0);
    CHECK(file.write("5678\n") == EFBIG);
    CHECK(file.write("9\n") == EFBIG);
  }
  CHECK(file.write("back\n") == 0);
  CHECK(read_file(folder / "a.log") == "1234\n5\nddprun: 6 bytes could not be written here\nback\n");
}

TEST_CASE("a log file that cannot be opened says why at every write", "[log_file]") {
  const TempFolder folder;
  LogFile file(folder.path());
  CHECK(file.write("x") == EISDIR);
  LogFile late(folder / "later/a.log");
  CHECK(late.write("1\n") == ENOENT);
  fs::create_directory(folder / "later");
  CHECK(late.write("2\n") == 0);
  CHECK(read_file(folder / "later/a.log") == "\nddprun: 2 bytes could not be written here\n2\n");
}

TEST_CASE("the log tree has a folder per run, round and rank, and a link to the latest run", "[log_layout]") {
  const TempFolder folder;
  LogLayout layout({.log_dir = (folder / "logs").string()}, "run7");
  CHECK(layout.worker_folder({.round = 2, .restarts = 1, .rank = 5, .local_rank = 1}) ==
        folder / "logs/run7/round-2/rank-5");
  CHECK(fs::is_directory(folder / "logs/latest/round-2/rank-5"));
  CHECK(layout.unnamed_folder().empty());
  layout.clean_up(true);
  CHECK(fs::is_directory(folder / "logs/run7"));
}

TEST_CASE("torchrun's tree has a folder per run of the launcher, attempt and local rank", "[log_layout]") {
  const TempFolder folder;
  const LogOptions options{.log_dir = (folder / "logs").string(), .tree = LogTree::torchrun};
  const WorkerPlace place{.round = 4, .restarts = 1, .rank = 5, .local_rank = 1};
  const fs::path one = LogLayout(options, "run7").worker_folder(place);
  const fs::path two = LogLayout(options, "run7").worker_folder(place);
  CHECK(one != two);
  CHECK_THAT(fs::relative(one, folder / "logs").string(), Matches("run7_[^/]+/attempt_1/1"));
  CHECK(fs::is_directory(one));
}

TEST_CASE("files without a log folder lie in a temporary one, which stays if they are logs", "[log_layout]") {
  const TempFolder folder;
  setenv("TMPDIR", folder.path().c_str(), 1);
  for (const LogTree tree : {LogTree::ddprun, LogTree::torchrun}) {
    LogLayout errors({.tree = tree}, "run7");
    CHECK(fs::is_empty(folder.path()));  // not before somebody needs it
    errors.worker_folder({.round = 1});
    errors.clean_up(true);
    CHECK(fs::is_empty(folder.path()));
    LogLayout logs({.tree = tree, .tee = both()}, "run7");
    CHECK(logs.worker_folder({.round = 1}).string().starts_with(logs.unnamed_folder().string() + "/"));
    logs.clean_up(true);
    CHECK(fs::is_directory(logs.unnamed_folder()));
    for (const auto& entry : fs::directory_iterator(folder.path())) fs::remove_all(entry);
  }
  unsetenv("TMPDIR");
}

TEST_CASE("error files without logs lie side by side in one folder", "[log_layout]") {
  const TempFolder folder;
  setenv("TMPDIR", folder.path().c_str(), 1);
  LogLayout errors({}, "run7");
  const WorkerPlace place{.round = 2, .restarts = 1, .rank = 5, .local_rank = 1};
  CHECK(errors.error_file(place).empty());  // nobody has needed a folder yet
  const fs::path inside = errors.worker_folder(place);
  CHECK(inside.parent_path() == folder.path());
  CHECK(errors.error_file(place) == inside / "round-2-rank-5-error.json");
  CHECK(fs::is_empty(inside));
  LogLayout torchrun({.tree = LogTree::torchrun}, "run7");
  const fs::path own = torchrun.worker_folder(place);
  CHECK(torchrun.error_file(place) == own / "error.json");
  CHECK(own.string().ends_with("/attempt_1/1"));
  unsetenv("TMPDIR");
}

TEST_CASE("a log folder of /dev/null means no files, whatever else is asked for", "[log_layout]") {
  LogLayout layout({.log_dir = "/dev/null", .tee = both()}, "run7");
  CHECK(layout.worker_folder({.round = 1}).empty());
  CHECK(layout.round_folder({.round = 1}).empty());
}

TEST_CASE("a run's name leads nowhere else, and one called latest has a folder beside the link of that name",
          "[log_layout]") {
  const TempFolder folder;
  LogLayout latest({.log_dir = folder.path()}, "latest");
  latest.worker_folder({1, 0, 0, 0});
  CHECK(fs::read_symlink(folder / "latest") == "latest_");
  CHECK(fs::is_directory(folder / "latest" / "round-1" / "rank-0"));
  for (const char* name : {"..", "../x", "a/b", "/etc"}) {
    LogLayout layout({.log_dir = (folder / "logs").string()}, name);
    CHECK(layout.worker_folder({.round = 1}).parent_path().parent_path().parent_path() == folder / "logs");
  }
}

TEST_CASE("a log folder that cannot be made is told at once", "[log_layout]") {
  const TempFolder folder;
  folder.write("file", "");
  CHECK_THROWS_AS(LogLayout({.log_dir = (folder / "file").string()}, "run7"), UsageError);
  CHECK_THROWS_AS(LogLayout({.log_dir = "/proc/none", .tree = LogTree::torchrun}, "run7"), UsageError);
}

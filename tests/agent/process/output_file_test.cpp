#include "agent/process/output_file.h"

#include <pty.h>

#include "rendezvous/base/fd.h"
#include "tests/support/test.h"

namespace {

Fd opened(const std::string& path, int how = O_WRONLY) { return Fd(open(path.c_str(), how | O_CLOEXEC)); }

std::string end_of(const Fd& stream) {
  OutputFiles files;
  const FileEnd* end = files.end_of(getpid(), stream.get());
  return end ? end->bytes : "not known";
}

}  // namespace

TEST_CASE("the end of a file is read by who writes it", "[output_file]") {
  const TempFolder folder;
  const Fd out = opened(folder.write("out", std::string(10'000, 'x') + "last\n"));
  const std::string end = end_of(out);
  CHECK(end.size() == kFileEndMax);
  CHECK_THAT(end, EndsWith("xlast\n"));
  fs::remove(folder / "out");  // it is open
  CHECK(end_of(out) == end);
  CHECK(end_of(opened(folder.write("empty", ""))).empty());
  OutputFiles files;
  CHECK(files.end_of(getpid(), out.get()) == files.end_of(getpid(), Fd(dup(out.get())).get()));
  CHECK(std::chrono::system_clock::now() - files.end_of(getpid(), out.get())->written < 1h);
}

TEST_CASE("a pipe, a terminal, a device and a folder are not read, and a pipe gets no further reader",
          "[output_file]") {
  const TempFolder folder;
  std::array<int, 2> ends{};
  REQUIRE(pipe2(ends.data(), O_CLOEXEC) == 0);
  const Fd out(ends[1]);
  Fd in(ends[0]);
  REQUIRE(write(out.get(), "line\n", 5) == 5);
  CHECK(end_of(out) == "not known");
  std::array<char, 8> bytes{};
  CHECK(read(in.get(), bytes.data(), bytes.size()) == 5);
  const std::string fifo = folder / "fifo";
  REQUIRE(mkfifo(fifo.c_str(), 0600) == 0);
  const Fd both = opened(fifo, O_RDWR | O_NONBLOCK);
  CHECK(end_of(both) == "not known");
  int master = -1, slave = -1;
  REQUIRE(openpty(&master, &slave, nullptr, nullptr, nullptr) == 0);
  const Fd terminal(slave), other(master);
  CHECK(end_of(terminal) == "not known");
  CHECK(end_of(opened("/dev/null")) == "not known");
  CHECK(end_of(opened(folder / ".", O_RDONLY)) == "not known");
  OutputFiles files;
  CHECK(files.end_of(getpid(), 1'000'000) == nullptr);
}

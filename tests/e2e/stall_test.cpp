// File systems that do not answer for a while.
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <unistd.h>

#include "tests/e2e/programs.h"
#include "tests/support/command.h"
#include "tests/support/test.h"

namespace {

// A file system of its own, whose writers the kernel holds while it is frozen.
class Disk {
 public:
  Disk() {
    const std::string image = folder_ / "image", at = path();
    std::filesystem::create_directory(at);
    mounted_ = run({"sh", "-c",
                    "truncate -s 64M " + image + " && mkfs.ext4 -q " + image + " && mount -o loop " + image + " " + at},
                   kLimit) == exited(0);
    if (mounted_) fd_ = open(at.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  }
  ~Disk() {
    thaw();
    if (fd_ >= 0) close(fd_);
    umount2(path().c_str(), MNT_DETACH);
  }
  Disk(const Disk&) = delete;
  Disk& operator=(const Disk&) = delete;

  bool mounted() const { return mounted_; }
  std::string path() const { return folder_ / "disk"; }
  void freeze() const { REQUIRE(ioctl(fd_, FIFREEZE, 0) == 0); }
  void thaw() const { ioctl(fd_, FITHAW, 0); }

 private:
  TempFolder folder_;
  bool mounted_ = false;
  int fd_ = -1;
};

int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (auto at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

const std::string kTold = "the file system did not answer for ";

}  // namespace

TEST_CASE("a file system that does not answer delays no restart, is told once, and loses no event", "[stalls]") {
  const Disk disk;
  if (skipped_if(!disk.mounted(), "no file system can be mounted here")) return;
  const TempFolder folder;
  const std::string worker =
      "echo up $DDPRUN_ROUND; while [ ! -e go ]; do [ $DDPRUN_ROUND = 1 ] && [ -e fail ] && exit 3; sleep 0.02; done";
  Command job({kDdprun, "--nproc-per-node=2", "--max-restarts=3", "--rdzv-id=stalls", "--state-dir=" + disk.path(),
               "--event-log-handler=file:" + disk.path() + "/events", "--no-python", "sh", "-c", worker},
              {.cwd = folder.path()});
  job.wait_for_output("up 1", kLimit);
  disk.freeze();
  const auto frozen = std::chrono::steady_clock::now();
  folder.write("fail", "");
  job.wait_for_output("up 2", kLimit);
  std::this_thread::sleep_until(frozen + 5500ms);  // shorter stalls are not told
  disk.thaw();
  job.wait_for_output(kTold, kLimit);
  folder.write("go", "");
  CHECK(job.wait_exit(kLimit) == exited(0));
  CHECK(count_of(job.err(), kTold) == 1);
  const std::string events = read_file(disk.path() + "/events");
  for (const char* state : {"\"FAILED\"", "\"SUCCEEDED\""}) CHECK(has(events, state));
}

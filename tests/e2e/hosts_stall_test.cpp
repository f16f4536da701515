// File systems, names and loops that stand for a while: no node is lost, and each stall is told once.
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <unistd.h>

#include "tests/e2e/host_job.h"
#include "tests/e2e/programs.h"
#include "tests/e2e/standing_loop.h"
#include "tests/support/soak.h"
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

TEST_CASE("stalls of files and loops over hosts lose no node, whatever load there is", "[stalls]") {
  if (!soaking() || !hosts_or_skip()) return;
  const Disk disk;
  if (skipped_if(!disk.mounted(), "no file system can be mounted here")) return;
  std::string remark;
  Series("stalls of 1 to 20 s of files and loops on 3 hosts, load 8, greedy rules, for ten minutes: no node lost", 0, 1)
      .run(
          [&](std::uint64_t seed) {
            std::mt19937_64 random(seed);
            HostJob job(3, {});
            std::ofstream rules(job.folder / "rules.toml");
            for (const char* line : {"(a+)+b", "(.*a){20}b", "(a|aa)+c"})
              rules << "[[rules]]\nline = '" << line << "'\naction = 'stop'\n";
            rules.close();
            const std::string worker = "while head -c 16000 /dev/zero | tr '\\0' a; do echo; sleep 0.5; done & exec " +
                                       programs_folder() + "/host_worker";
            const auto ddprun =
                joined({{kDdprun},
                        elastic_over_hosts("3:3"),
                        {"--config=rules.toml", "--rdzv-id=stalls", "--state-dir=" + disk.path(),
                         "--log-dir=" + disk.path() + "/logs", "--event-log-handler=file:" + disk.path() + "/events"}});
            std::vector<std::unique_ptr<Command>> load;
            for (int i = 0; i < 8; ++i)
              load.push_back(std::make_unique<Command>(std::vector<std::string>{"sh", "-c", "while :; do :; done"}));
            for (int host = 0; host < 3; ++host)
              job.start_command(
                  host, joined({ddprun, {"--node-rank=" + std::to_string(host), "--no-python", "sh", "-c", worker}}));
            REQUIRE(job.wait_for_world(3).round == 1);
            int stalls = 0, loops = 0;
            for (const auto end = std::chrono::steady_clock::now() + 10min; std::chrono::steady_clock::now() < end;) {
              const auto time = std::chrono::milliseconds(1'000 + random() % 19'000);
              const auto until = std::chrono::steady_clock::now() + time;
              if (random() % 2 == 0) {
                ++stalls;
                disk.freeze();
                std::this_thread::sleep_until(until);
                disk.thaw();
              } else {
                ++loops;
                const StandingLoop stands(job.agent(static_cast<int>(random() % 3)));
                std::this_thread::sleep_until(until);
              }
              CHECK(job.wait_for_world(3, std::chrono::steady_clock::now()).round == 1);
            }
            load.clear();
            job.all_end_well({0, 1, 2});
            int told = 0;
            for (int host = 0; host < 3; ++host) told = std::max(told, count_of(job[host].err(), kTold));
            CHECK(told <= 2 * stalls);  // of the event log and the ledger
            remark = " (" + std::to_string(stalls) + " of files, " + std::to_string(loops) + " of loops; told " +
                     std::to_string(told) + " times)";
          },
          [&] { return remark; });
}

// File systems, names and loops that stand for a while: no node is lost, and each stall is told once.
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/resource.h>
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

// Agents that can have no further descriptor, or no further thread, as long as this exists.
class Limit {
 public:
  enum class Of { descriptors, threads };
  Limit(Of what, pid_t agent) : agent_(agent) {
    if (what == Of::threads) {
      for (const char* const at : {"/sys/fs/cgroup/pids", "/sys/fs/cgroup"})
        if (std::filesystem::create_directory(at + std::string("/ddprun-stalls"), ignored_); has_group(at)) break;
      if (!group_.empty()) write("cgroup.procs", std::to_string(agent)), write("pids.max", "0");
    } else {
      const std::filesystem::directory_iterator open("/proc/" + std::to_string(agent) + "/fd");
      prlimit(agent, RLIMIT_NOFILE, nullptr, &before_);
      const rlimit none{static_cast<rlim_t>(std::distance(begin(open), end(open))), before_.rlim_max};
      prlimit(agent, RLIMIT_NOFILE, &none, nullptr);
    }
  }
  ~Limit() {
    if (before_.rlim_cur != 0) prlimit(agent_, RLIMIT_NOFILE, &before_, nullptr);
    if (group_.empty()) return;
    write("pids.max", "max");
    std::ofstream(group_.parent_path() / "cgroup.procs") << agent_;
    std::filesystem::remove(group_, ignored_);
  }
  Limit(const Limit&) = delete;
  Limit& operator=(const Limit&) = delete;

 private:
  bool has_group(const std::filesystem::path& at) {
    if (std::filesystem::exists(at / "ddprun-stalls/pids.max")) group_ = at / "ddprun-stalls";
    return !group_.empty();
  }
  void write(const char* file, const std::string& text) const { std::ofstream(group_ / file) << text; }

  const pid_t agent_;
  rlimit before_{};
  std::filesystem::path group_;
  std::error_code ignored_;
};

pid_t template_of(Command& node) {
  for (const Process& process : node.processes())
    if (environment_of(process.pid).contains("DDPRUN_TEMPLATE")) return process.pid;
  return 0;
}

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

TEST_CASE("what stalls over hosts loses no node, whatever load there is", "[stalls]") {
  if (!soaking() || !hosts_or_skip()) return;
  const Disk disk;
  if (skipped_if(!disk.mounted(), "no file system can be mounted here")) return;
  std::map<std::string, int> stalls;
  Series("stalls of 1 to 20 s on 3 hosts, load 8, greedy rules, no name server, for ten minutes: no node lost", 0, 1)
      .run(
          [&](std::uint64_t seed) {
            std::mt19937_64 random(seed);
            HostJob job(3, {});
            std::ofstream rules(job.folder / "rules.toml");
            for (const char* line : {"(a+)+b", "(.*a){20}b", "(a|aa)+c"})
              rules << "[[rules]]\nline = '" << line << "'\naction = 'stop'\n";
            rules.close();
            const auto ddprun =
                joined({{kDdprun},
                        elastic_over_hosts("3:3"),
                        {"--config=rules.toml", "--rdzv-id=stalls", "--state-dir=" + disk.path(), "--prefork",
                         "--log-dir=" + disk.path() + "/logs", "--event-log-handler=file:" + disk.path() + "/events",
                         "--otlp=http://collector.cluster:4318"}});
            job.start_command(1, {"python3", source_folder() + "/tests/e2e/name_server.py"})
                .wait_for_output("serves", 30s);
            const std::string resolv_conf = job.folder.write(
                "resolv.conf", "nameserver " + Hosts::address(1) + "\noptions timeout:30 attempts:5 ndots:0\n");
            const std::string switch_conf = job.folder.write("nsswitch.conf", "hosts: files dns\n");
            const std::string script = "unset RES_OPTIONS; mount --bind " + resolv_conf +
                                       " /etc/resolv.conf && mount --bind " + switch_conf +
                                       " /etc/nsswitch.conf && exec \"$0\" \"$@\"";
            std::vector<std::unique_ptr<Command>> load;
            for (int i = 0; i < 8; ++i)
              load.push_back(std::make_unique<Command>(std::vector<std::string>{"sh", "-c", "while :; do :; done"}));
            for (int host = 0; host < 3; ++host)
              job.start_command(
                  host, joined({{"sh", "-c", script},
                                ddprun,
                                {"--node-rank=" + std::to_string(host), programs_folder() + "/host_worker", "shout"}}));
            int round = job.wait_for_world(3).round;
            REQUIRE(round == 1);
            for (const auto end = std::chrono::steady_clock::now() + 10min; std::chrono::steady_clock::now() < end;) {
              const int host = static_cast<int>(random() % 3);
              const auto until =
                  std::chrono::steady_clock::now() + std::chrono::milliseconds(1'000 + random() % 19'000);
              const auto pass = [&] { std::this_thread::sleep_until(until); };
              switch (random() % 5) {
                case 0:
                  ++stalls["files"], disk.freeze(), pass(), disk.thaw();
                  break;
                case 1: {
                  ++stalls["loops"];
                  const StandingLoop stands(job.agent(host));
                  pass();
                  break;
                }
                case 2: {
                  ++stalls["descriptors"];
                  const Limit limit(Limit::Of::descriptors, job.agent(host));
                  run(job.hosts.on(host, {"timeout", "2", kDdprun, "status", "stalls"}), kLimit);
                  pass();
                  break;
                }
                case 3: {
                  ++stalls["threads"];
                  const Limit limit(Limit::Of::threads, job.agent(host));
                  run(job.hosts.on(host, {"timeout", "2", kDdprun, "ctl", "stalls", "stacks"}), kLimit);
                  pass();
                  break;
                }
                default: {
                  const pid_t asked = template_of(job[host]);
                  if (asked == 0) break;
                  ++stalls["forks"];
                  const auto before = std::chrono::steady_clock::now();
                  kill(asked, SIGSTOP);
                  REQUIRE(run(job.hosts.on(host, {kDdprun, "ctl", "stalls", "restart"}), kLimit) == exited(0));
                  CHECK(job.wait_for_new_world(3, before).round == ++round);
                  kill(asked, SIGCONT);
                }
              }
              CHECK(job.wait_for_world(3, std::chrono::steady_clock::now()).round == round);
            }
            load.clear();
            job.all_end_well({0, 1, 2});
            for (int host = 0; host < 3; ++host) {
              CHECK(count_of(job[host].err(), kTold) <= 2 * stalls["files"]);  // of the event log and the ledger
              CHECK(count_of(job[host].err(), "it did not fork") <= stalls["forks"]);
            }
          },
          [&] {
            std::string text;
            for (const auto& [what, number] : stalls)
              text += (text.empty() ? " (" : ", ") + std::to_string(number) + " of " + what;
            return text + ")";
          });
}

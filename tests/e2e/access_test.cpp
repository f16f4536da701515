// Access to a job from the same machine: by other users, and by workers to the token.
#include "tests/e2e/programs.h"
#include "tests/support/test.h"

namespace {

// Connects to the store as user 65534: "served" or "closed".
std::string asked_as_nobody(std::vector<std::string> options) {
  options.insert(options.end(), {"setpriv", "--reuid=65534", "--clear-groups", "bash", "-c",
                                 "exec 3<>/dev/tcp/$MASTER_ADDR/$MASTER_PORT; "
                                 "printf '\\x00\\xce\\xf7\\x85\\x3c\\x0d\\x07\\x00\\x00\\x00' >&3; "
                                 "[ $(head -c 4 <&3 2>&- | wc -c) = 4 ] && echo served || echo closed"});
  const Ended ended = run(job_of(std::move(options)), kLimit);
  CHECK(ended == exited(0));
  CHECK(has(ended.err,
            "ddprun: refused a client on this machine: its process belongs to user 65534, ddprun's to 0 "
            "(--store-users any lets it in).\n") == has(ended.out, "closed"));
  return ended.out;
}

}  // namespace

TEST_CASE("the store of a job on one machine serves processes of our own user and root alone, unless told otherwise") {
  if (skipped_if(geteuid() != 0, "only root can start a process of another user")) return;
  CHECK(asked_as_nobody({}) == "closed\n");
  CHECK(asked_as_nobody({"--master-addr=localhost"}) == "closed\n");  // which listens on every address
  CHECK(asked_as_nobody({"--store-users=any"}) == "served\n");
}

namespace {

constexpr const char* kSecret = "c4f1e07b6a5d43e29f80b1c2d3e4f5a6";

// All files in a folder.
std::string contents_of(const fs::path& folder) {
  std::string all;
  for (const auto& file : fs::directory_iterator(folder)) all += read_file(file.path());
  return all;
}

}  // namespace

TEST_CASE("no process of the job shows the token in its environment") {
  const Ended ended = run(shell_job({},
                                    "for pid in $$ $PPID $(ps -o ppid= -p $PPID); do "
                                    "tr '\\0' '\\n' < /proc/$pid/environ | grep -c ^PATH=; "
                                    "tr '\\0' '\\n' < /proc/$pid/environ | grep TOKEN=.; done; true"),
                          kLimit, {.env = {{"DDPRUN_TOKEN", kSecret}}});
  CHECK(ended == exited(0));
  CHECK(ended.out == "1\n1\n1\n");
}

TEST_CASE("with a token the agent's memory is hidden from its own user, and the workers are as without") {
  const std::vector<std::string> as_nobody{"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"};
  const bool can = geteuid() == 0 && run(joined({as_nobody, {kDdprun, "--version"}}), kLimit) == exited(0);
  if (skipped_if(!can, "ddprun cannot be started as another user here")) return;
  const auto job = shell_job({},
                             "until [ $(cat /proc/$$/oom_score_adj) = 300 ]; do sleep 0.01; done; "
                             "stat -c %u /proc/$PPID/mem /proc/$$/mem");
  const Words words = joined({as_nobody, job});
  CHECK(run(words, kLimit, {.env = {{"DDPRUN_TOKEN", kSecret}}, .cwd = "/"}).out == "0\n65534\n");
  CHECK(run(words, kLimit, {.cwd = "/"}).out == "65534\n65534\n");
}

TEST_CASE("a core dump of the agent does not hold the token, and there is one without a token", "[release-only]") {
  const std::string pattern = read_file("/proc/sys/kernel/core_pattern");
  if (skipped_if(pattern.starts_with("|") || pattern.starts_with("/"), "core dumps go elsewhere here")) return;
  for (const char* token : {kSecret, ""}) {
    const TempFolder folder;
    const Words words =
        joined({{"sh", "-c", "ulimit -c unlimited; exec \"$@\"", "sh"}, shell_job({}, "kill -SEGV $PPID; read line")});
    CHECK(run(words, kLimit, {.env = {{"DDPRUN_TOKEN", token}}, .cwd = folder.path(), .terminal = true}).code == 139);
    const std::string core = contents_of(folder.path());
    CHECK_FALSE(has(core, kSecret));
    CHECK(core.empty() == (*token != 0));
  }
}

TEST_CASE("a worker that fills the store is closed, and the job goes on") {
  // Twenty pushes of 100,000 bytes: the connection may be closed during any, which must not kill the client.
  const Ended ended = run(job_of({"--store-memory=1M", "bash", "-c",
                                  "trap '' PIPE; exec 3<>/dev/tcp/$MASTER_ADDR/$MASTER_PORT; "
                                  "printf '\\x00\\xce\\xf7\\x85\\x3c' >&3; "
                                  "for i in $(seq 20); do "
                                  "printf '\\x0e\\x01\\0\\0\\0\\0\\0\\0\\0q\\xa0\\x86\\x01\\0\\0\\0\\0\\0' >&3; "
                                  "head -c 100000 /dev/zero >&3; done 2>/dev/null; "
                                  "head -c 1 <&3 2>/dev/null | wc -c"}),
                          kLimit);
  CHECK(ended == exited(0));
  CHECK(ended.out == "0\n");
  CHECK(ended.err ==
        "ddprun: refused a client: keys and queues use all the memory they may, 1 MiB (--store-memory).\n");
}

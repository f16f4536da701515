// Who else on the machine gets at a job: other users, and workers at the token.
#include <unistd.h>

#include <filesystem>

#include "tests/e2e/programs.h"
#include "tests/support/catch.h"
#include "tests/support/command.h"

using namespace ddprun::test;
namespace fs = std::filesystem;

namespace {

// Asks the store whether it is there, as user 65534: "served", or "closed".
std::string asked_as_nobody(std::vector<std::string> options) {
  options.insert(options.end(), {"setpriv", "--reuid=65534", "--clear-groups", "bash", "-c",
                                 "exec 3<>/dev/tcp/$MASTER_ADDR/$MASTER_PORT; "
                                 "printf '\\x00\\xce\\xf7\\x85\\x3c\\x0d\\x07\\x00\\x00\\x00' >&3; "
                                 "[ $(head -c 4 <&3 2>&- | wc -c) = 4 ] && echo served || echo closed"});
  const Ended ended = run(job_of(std::move(options)), kLimit);
  CHECK(ended == exited(0));
  CHECK(has(ended.err,
            "ddprun: refused a client on this machine: its process belongs to user 65534, ours to 0 "
            "(--store-users any lets it in).\n") == has(ended.out, "closed"));
  return ended.out;
}

}  // namespace

TEST_CASE("the store of a job on one machine serves processes of our own user and root alone, unless told otherwise") {
  if (geteuid() != 0) {
    WARN("skipped: only root can start a process of another user");
    return;
  }
  CHECK(asked_as_nobody({}) == "closed\n");
  CHECK(asked_as_nobody({"--master-addr=localhost"}) == "closed\n");  // which listens on every address
  CHECK(asked_as_nobody({"--store-users=any"}) == "served\n");
}

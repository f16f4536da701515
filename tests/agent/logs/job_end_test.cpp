#include "agent/logs/job_end.h"

#include "tests/support/catch.h"

using namespace ddprun;
using namespace ddprun::agent;

TEST_CASE("a job's end is one line of JSON", "[job_end]") {
  CHECK(to_json({}) == "{\"exit_code\":0,\"message\":\"\",\"first_failure\":null}\n");
  CHECK(to_json({.exit_code = 1,
                 .message = "the job failed: rank 3\n  \xff\n",
                 .first_failure = JobEnd::FirstFailure{3, 1, "node7", -9}}) ==
        "{\"exit_code\":1,\"message\":\"the job failed: rank 3\\n  \\ufffd\",\"first_failure\":{\"global_rank\":3,"
        "\"local_rank\":1,\"hostname\":\"node7\",\"exit_code\":-9}}\n");
}

#include "trainer/ddp/group/nccl_settings.h"

#include "tests/support/test.h"

namespace {

using Environment = std::map<std::string, std::string>;

const Environment kOurs{{"TORCH_NCCL_ASYNC_ERROR_HANDLING", "3"},
                        {"TORCH_NCCL_DUMP_ON_TIMEOUT", "0"},
                        {"TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC", "500"},
                        {"TORCH_NCCL_SHOW_EAGER_INIT_P2P_SERIALIZATION_WARNING", "0"}};

Environment ours_without(std::initializer_list<const char*> names) {
  Environment rest = kOurs;
  for (const char* name : names) rest.erase(name);
  return rest;
}

}  // namespace

TEST_CASE("a launcher's value for NCCL's error handling is no choice of the user's", "[nccl_settings]") {
  CHECK(nccl_settings({}) == kOurs);
  CHECK(nccl_settings({{"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"}}) == kOurs);
}

TEST_CASE("what the user chooses of NCCL's error handling stays", "[nccl_settings]") {
  for (const char* value : {"0", "2", "3"})
    CHECK(nccl_settings({{"TORCH_NCCL_ASYNC_ERROR_HANDLING", value}}) ==
          ours_without({"TORCH_NCCL_ASYNC_ERROR_HANDLING"}));
  CHECK(nccl_settings({{"NCCL_ASYNC_ERROR_HANDLING", "1"}}) == ours_without({"TORCH_NCCL_ASYNC_ERROR_HANDLING"}));
  CHECK(nccl_settings({{"TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC", "9"}}) ==
        ours_without({"TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC"}));
  CHECK(nccl_settings({{"TORCH_NCCL_SHOW_EAGER_INIT_P2P_SERIALIZATION_WARNING", "1"}}) ==
        ours_without({"TORCH_NCCL_SHOW_EAGER_INIT_P2P_SERIALIZATION_WARNING"}));
}

TEST_CASE("a flight record that is asked for is dumped, and has its time", "[nccl_settings]") {
  for (const char* name : {"TORCH_NCCL_TRACE_BUFFER_SIZE", "TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_DUMP_ON_TIMEOUT"})
    CHECK(nccl_settings({{name, "1"}}) ==
          ours_without({"TORCH_NCCL_DUMP_ON_TIMEOUT", "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC"}));
}

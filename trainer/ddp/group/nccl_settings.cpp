#include "trainer/ddp/group/nccl_settings.h"

namespace ddprun {

std::map<std::string, std::string> nccl_settings(const std::map<std::string, std::string>& environment) {
  const auto given = [&](const char* name) { return environment.contains(name); };
  std::map<std::string, std::string> settings;
  const auto error_handling = environment.find("TORCH_NCCL_ASYNC_ERROR_HANDLING");
  if (error_handling == environment.end() ? !given("NCCL_ASYNC_ERROR_HANDLING") : error_handling->second == "1")
    settings["TORCH_NCCL_ASYNC_ERROR_HANDLING"] = "3";
  const bool wants_dump =
      given("TORCH_NCCL_TRACE_BUFFER_SIZE") || given("TORCH_FR_BUFFER_SIZE") || given("TORCH_NCCL_DUMP_ON_TIMEOUT");
  if (!wants_dump) {
    settings["TORCH_NCCL_DUMP_ON_TIMEOUT"] = "0";
    if (!given("TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC")) settings["TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC"] = "500";
  }
  constexpr const char* kWarning = "TORCH_NCCL_SHOW_EAGER_INIT_P2P_SERIALIZATION_WARNING";
  if (!given(kWarning)) settings[kWarning] = "0";
  return settings;
}

}  // namespace ddprun

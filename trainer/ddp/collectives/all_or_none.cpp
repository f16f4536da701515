#include "trainer/ddp/collectives/all_or_none.h"

#include <c10/util/Exception.h>

#include <new>
#include <nlohmann/json.hpp>

#include "ddprun/collectives.h"
#include "rendezvous/base/error.h"

namespace ddprun {

std::string sentence_of(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error)) return "there is too little memory (std::bad_alloc)";
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  return torch_error ? torch_error->what_without_backtrace() : error.what();
}

void all_or_none(const ProcessGroup& group, const std::function<void()>& part) {
  std::string problem;
  bool usage = false;
  try {
    part();
  } catch (const PeerLost&) {
    throw;
  } catch (const std::exception& error) {
    problem = sentence_of(error);
    usage = dynamic_cast<const UsageError*>(&error) != nullptr;
  }
  for (const nlohmann::json& reported : all_gather_object({problem, usage}, group)) {
    const auto sentence = reported[0].get<std::string>();
    if (!sentence.empty() && reported[1].get<bool>()) throw AgreedUsageError(sentence);
    if (!sentence.empty()) throw AgreedError(sentence);
  }
}

}  // namespace ddprun

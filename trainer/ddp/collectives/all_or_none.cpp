#include "trainer/ddp/collectives/all_or_none.h"

#include <c10/util/Exception.h>

#include <new>
#include <nlohmann/json.hpp>

#include "ddprun/collectives.h"

namespace ddprun {

std::string sentence_of(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error)) return "there is too little memory (std::bad_alloc)";
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  return torch_error ? torch_error->what_without_backtrace() : error.what();
}

void all_or_none(const ProcessGroup& group, const std::function<void()>& part) {
  std::string problem;
  try {
    part();
  } catch (const PeerLost&) {
    throw;
  } catch (const std::exception& error) {
    problem = sentence_of(error);
  }
  for (const nlohmann::json& reported : all_gather_object(problem, group))
    if (const auto sentence = reported.get<std::string>(); !sentence.empty()) throw AgreedError(sentence);
}

}  // namespace ddprun

#include "agent/logs/job_end.h"

#include <nlohmann/json.hpp>

#include "rendezvous/base/json_text.h"

namespace ddprun::agent {

std::string to_json(const JobEnd& end) {
  using Json = nlohmann::ordered_json;
  Json out;
  out["exit_code"] = end.exit_code;
  out["message"] = end.message.substr(0, end.message.find_last_not_of('\n') + 1);
  out["first_failure"] = nullptr;
  if (const auto& failure = end.first_failure)
    out["first_failure"] = Json{{"global_rank", failure->rank},
                                {"local_rank", failure->local_rank},
                                {"hostname", failure->host},
                                {"exit_code", failure->exit_code}};
  return json_text(out, {.ascii = true}) + "\n";
}

}  // namespace ddprun::agent

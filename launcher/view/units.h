// Numbers with their units, for people. Pure.
#pragma once
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "rendezvous/base/duration_text.h"
#include "rendezvous/base/formatted.h"

namespace ddprun::launcher {

std::string bytes_text(double bytes);  // "2.1 GiB"; "-" for none
// Of a rank as status_json.h has it: "312%"; "-" where it is not known.
std::string processors_text(const nlohmann::json& rank);

}  // namespace ddprun::launcher

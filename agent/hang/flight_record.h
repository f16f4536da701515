// Reads PyTorch's flight record, as its worker server answers with it (fr_trace_json, version 2), into what finding a
// hang needs. Pure.
//
// Source: torch/csrc/distributed/c10d/FlightRecorderDetail.hpp, and what torch 2.15 answers.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "rendezvous/coordination/account/collective_record.h"

namespace ddprun::agent {

// `groups`: what _record.py has written, {"<group's name>": [global ranks; none: all]}; may be empty. Empty: it is no
// record, or nothing was recorded.
std::optional<rendezvous::CollectiveRecord> flight_record(std::string_view record, std::string_view groups);

}  // namespace ddprun::agent

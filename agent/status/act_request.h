// What `ddprun ctl` asks an agent, as a line: "act " and a JSON object, and the answer to it. Pure.
#pragma once
#include <string>
#include <variant>

#include "rendezvous/coordination/inquiry/act.h"

namespace ddprun::agent {

constexpr const char* kAskAct = "act ";

std::string act_line(const rendezvous::Act& act);
// The act, or a sentence why it is none.
std::variant<rendezvous::Act, std::string> parse_act(const std::string& line);

std::string to_line(const rendezvous::ActResult& answer);
rendezvous::ActResult parse_act_result(const std::string& line);

}  // namespace ddprun::agent

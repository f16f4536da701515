// Of the answer to `ddprun stacks`, what belongs to one rank. Pure.
#pragma once
#include <optional>
#include <string>

namespace ddprun::launcher {

// Empty `rank`: all of it.
std::string stacks_of_rank(const std::string& all, std::optional<int> rank);

}  // namespace ddprun::launcher

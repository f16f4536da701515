// A table for people: columns as wide as their longest cell, two blanks between them. Pure.
#pragma once
#include <string>
#include <vector>

namespace ddprun::launcher {

// Rows of equally many cells, the headings first.
std::string table_text(const std::vector<std::vector<std::string>>& rows);

}  // namespace ddprun::launcher

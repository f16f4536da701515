// The list of tours: `train tour NAME`. Each shows by a small run what the ranks of a group do together.
#pragma once
#include <string>
#include <vector>

namespace ddprun::train {

struct Tour {
  std::string name;
  std::string help;    // one line
  bool draws = false;  // takes a file for a picture
  bool deals = false;  // takes a number of samples, and of those in a batch
};

const std::vector<Tour>& tours();
const Tour* find_tour(const std::string& name);  // null if there is none

// One line per tour, indented by two.
std::string list_of_tours();

}  // namespace ddprun::train

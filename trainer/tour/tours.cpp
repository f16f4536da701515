#include "trainer/tour/tours.h"

#include <algorithm>

#include "rendezvous/base/spelling.h"

namespace ddprun::train {
namespace {

constexpr std::size_t kTourColumns = 75;  // of a tour's name and its sentence

}  // namespace

const std::vector<Tour>& tours() {
  static const std::vector<Tour> all{
      {"collectives", "every collective with small tensors: before, after, and whether it is right"},
      {"sampler", "which samples each rank gets, with and without a DistributedSampler", true, true},
      {"sync", "where ranks wait for each other: in a barrier, and at the end of backward", true},
      {"reduce", "reduce changes the tensor of one rank, all_reduce that of each"},
      {"dp-vs-ddp", "one process with the whole batch beside DDP with its parts: numbers and times"}};
  return all;
}

const Tour* find_tour(const std::string& name) {
  const auto found = std::find_if(tours().begin(), tours().end(), [&](const Tour& tour) { return tour.name == name; });
  return found == tours().end() ? nullptr : &*found;
}

std::string list_of_tours() {
  std::size_t width = 0;
  for (const Tour& tour : tours()) width = std::max(width, tour.name.size());
  std::string text;
  for (const Tour& tour : tours()) {
    std::string heading = tour.name;
    for (const std::string& line : wrapped(tour.help, kTourColumns - width)) {
      text += "  " + heading + std::string(width + 2 - heading.size(), ' ') + line + "\n";
      heading.clear();
    }
  }
  return text;
}

}  // namespace ddprun::train

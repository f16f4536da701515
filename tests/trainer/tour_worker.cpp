// One rank of tour_test: tour_worker NAME [SVG]. As `train tour` does it, on the CPU. The name "wrong" is a tour of its
// own, with a collective that fails rank 1.
#include <cstdio>
#include <string>

#include "rendezvous/base/error.h"
#include "trainer/tour/tour_context.h"

namespace {

void show_wrong(ddprun::train::TourContext& context) {
  context.show("half_reduce", "rank 1 is forgotten.", {"[1]", context.rank() == 1 ? "[1]" : "[2]", "[2]"});
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string name = argc > 1 ? argv[1] : "";
  const ddprun::train::TourOptions options{.svg = argc > 2 ? argv[2] : ""};
  return name == "wrong" ? ddprun::train::run_tour_function(show_wrong, name, options, at::kCPU)
                         : ddprun::train::run_tour(name, options, at::kCPU);
} catch (const ddprun::UsageError& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 2;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}

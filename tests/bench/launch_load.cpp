// For the bench of functions on ranks: launch_load WORKERS FOLDER launches a function whose ranks write the time of
// their first line into FOLDER/PID, and prints when it began and returned, as from_python.py's peers do.
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "ddprun/launch.h"
#include "tests/bench/stamp.h"

int main(int argc, char** argv) {
  if (argc != 3) return std::fputs("usage: launch_load WORKERS FOLDER\n", stderr), 2;
  const std::string folder = argv[2];
  const auto first_line = [&](const nlohmann::json&) -> nlohmann::json { return ddprun::stamp(folder); };
  const long long begin = ddprun::now_ns();
  const nlohmann::json written = ddprun::launch(first_line, {.processes_per_machine = std::atoi(argv[1])});
  std::printf("{\"begin\": %lld, \"end\": %lld}\n", begin, ddprun::now_ns());
  return written == true ? 0 : 1;
}

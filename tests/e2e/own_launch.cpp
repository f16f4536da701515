// Runs a function in two processes, without a ddprun command line: `own_launch`.
#include <ddprun/launch.h>

#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>

int main() try {
  const auto answer = ddprun::launch(
      [](const nlohmann::json& question) -> nlohmann::json {
        return {{"question", question}, {"world", std::getenv("WORLD_SIZE")}};
      },
      {.processes_per_machine = 2}, "how many?");
  std::cout << answer << "\n";
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}

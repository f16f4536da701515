// Where the programs under test are.
#pragma once

#include <cstdlib>
#include <string>

namespace ddprun::test {

inline std::string ddprun_program() { return DDPRUN_BIN_DIR "/ddprun"; }
inline std::string train_program() { return DDPRUN_BIN_DIR "/train"; }
// A Python with torch: the .venv of scripts/setup.sh, or PYTHON_EXEC's.
inline std::string torch_python() {
  const char* chosen = std::getenv("PYTHON_EXEC");
  return chosen ? chosen : DDPRUN_SOURCE_DIR "/.venv/bin/python";
}

}  // namespace ddprun::test

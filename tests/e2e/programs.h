// Where the programs under test are, and how the tests start jobs with them.
#pragma once

#include <chrono>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/places.h"

namespace ddprun::test {

inline std::string ddprun_program() { return programs_folder() + "/ddprun"; }
inline std::string train_program() { return programs_folder() + "/train"; }
// A Python with torch: the .venv of scripts/setup.sh, or PYTHON_EXEC's.
inline std::string torch_python() {
  const char* chosen = std::getenv("PYTHON_EXEC");
  return chosen ? chosen : venv_python();
}

inline const std::string kDdprun = ddprun_program();
constexpr std::chrono::seconds kLimit{20};  // for every wait

inline std::vector<std::string> job_of(std::vector<std::string> words) {
  words.insert(words.begin(), kDdprun);
  return words;
}

// A job whose workers run a shell script.
inline std::vector<std::string> shell_job(std::vector<std::string> options, const std::string& script) {
  options.insert(options.end(), {"sh", "-c", script});
  return job_of(std::move(options));
}

inline bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace ddprun::test

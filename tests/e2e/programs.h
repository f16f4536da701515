// Where the programs under test are, and how the tests start jobs with them.
#pragma once

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/command.h"
#include "tests/support/places.h"
#include "tests/support/texts.h"

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

inline Ended same_weights(const std::string& one, const std::string& other) {
  return run({torch_python(), source_folder() + "/tests/e2e/same_weights.py", one, other}, 3 * kLimit);
}

// Says so where a test cannot be run.
inline bool skipped_if(bool impossible, const std::string& why) {
  if (impossible) WARN("skipped: " + why);
  return impossible;
}

// A new token's file, which nobody else may read.
inline std::string token_file(const TempFolder& folder, const std::string& name = "token") {
  const std::filesystem::path path = folder.write(name, run(job_of({"--make-token"}), kLimit).out);
  std::filesystem::permissions(path, std::filesystem::perms::owner_read);
  return path;
}

}  // namespace ddprun::test

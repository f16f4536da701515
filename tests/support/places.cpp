#include "tests/support/places.h"

namespace ddprun::test {

const std::string& source_folder() {
  static const std::string path = DDPRUN_SOURCE_DIR;
  return path;
}

const std::string& programs_folder() {
  static const std::string path = DDPRUN_BIN_DIR;
  return path;
}

const std::string& venv_python() {
  static const std::string path = DDPRUN_PYTHON;
  return path;
}

const std::string& project_version() {
  static const std::string version = DDPRUN_VERSION;
  return version;
}

}  // namespace ddprun::test

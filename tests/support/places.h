// Where the sources, the programs under test and the tests' Python are. Functions, as a path that is compiled into each
// file would make a second clone on the same machine compile all of them again.
#pragma once

#include <string>

namespace ddprun::test {

const std::string& source_folder();
const std::string& programs_folder();
const std::string& venv_python();
// As CMakeLists.txt has it.
const std::string& project_version();

}  // namespace ddprun::test

// What the tests of packages share: building some, and a project that uses them.
#pragma once
#include "tests/e2e/programs.h"
#include "tests/support/test.h"

namespace ddprun::test {

inline constexpr std::chrono::minutes kBuildLimit{20};  // most of it is waiting, where ccache holds nothing yet
inline constexpr const char* kSearched = "/usr/sbin:/usr/bin:/sbin:/bin";
// One write for each line: both ranks have the same stdout.
inline constexpr const char* kScript =
    "import os, sys\n"
    "os.write(1, f\"rank {os.environ['RANK']} by {sys.executable}\\n\".encode())\n";

// Builds packages of a kind into a folder.
inline std::vector<fs::path> packages(const std::string& kind, const fs::path& folder,
                                      std::vector<std::string> options = {}) {
  options.insert(options.begin(), {source_folder() + "/scripts/package.sh", kind, "--output", folder.string()});
  const Ended built = run(options, kBuildLimit);
  REQUIRE(built == exited(0));
  std::vector<fs::path> out;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) out.push_back(entry.path());
  std::sort(out.begin(), out.end());
  return out;
}

inline std::set<std::string> files_below(const fs::path& folder) {
  std::set<std::string> out;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder))
    if (!entry.is_directory()) out.insert(entry.path());  // pip leaves some empty folders
  return out;
}

// A new project that needs ddprun's package for CMake, with further words for find_package.
inline Ended configure(const TempFolder& folder, const std::string& prefix, const std::string& components) {
  folder.write("main.cpp", "#include \"ddprun/worker_channel.h\"\nint main() {}\n");
  folder.write("CMakeLists.txt",
               "cmake_minimum_required(VERSION 3.24)\nproject(p LANGUAGES CXX)\nfind_package(ddprun " +
                   project_version() + " REQUIRED " + components +
                   ")\nmessage(STATUS \"launcher: ${ddprun_EXECUTABLE}\")\nadd_executable(p main.cpp)\n"
                   "target_link_libraries(p ddprun::channel)\n");
  return run({"cmake", "-S", folder.path(), "-B", folder / "build", "-DCMAKE_PREFIX_PATH=" + prefix}, 60s);
}

}  // namespace ddprun::test

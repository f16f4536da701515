// The program `train` of a package: finds LibTorch and becomes the trainer.
#include <glob.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>  // strerror
#include <filesystem>
#include <fstream>
#include <regex>

#include "rendezvous/base/error.h"
#include "rendezvous/base/print_line.h"
#include "trainer/start/torch_place.h"

extern char** environ;

namespace ddprun::train {
namespace {

constexpr const char* kTrainer = "../lib/ddprun/train";  // relative to this program's folder
constexpr const char* kLibraryPath = "LD_LIBRARY_PATH";
constexpr int kUsage = 2;
// ddprun looks for it in this file; the trainer calls prefork(). Retained: nothing here refers to it.
[[gnu::used, gnu::retain]] const char kPreforkMark[] = "ddprun7prefork";

std::map<std::string, std::string> own_environment() {
  std::map<std::string, std::string> out;
  for (char** entry = environ; *entry; ++entry) {
    const std::string text = *entry;
    if (const std::size_t equals = text.find('='); equals != text.npos)
      out.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return out;
}

std::vector<std::string> matching(const std::string& pattern) {
  glob_t found = {};
  std::vector<std::string> out;
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0) out.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(&found);
  return out;
}

// A wheel's folder and an unpacked libtorch both have this file.
std::string torch_version(const std::string& folder) {
  static const std::regex kVersion("PACKAGE_VERSION \"([^\"]+)\"");
  std::ifstream file(folder + "/share/cmake/Torch/TorchConfigVersion.cmake");
  std::smatch found;
  for (std::string line; std::getline(file, line);)
    if (std::regex_search(line, found, kVersion)) return found[1];
  return {};
}

void start(char** argv) {
  const auto environment = own_environment();
  const std::string torch = find_torch(DDPRUN_TORCH_VERSION, {environment, matching, torch_version});
  const auto before = environment.find(kLibraryPath);
  setenv(kLibraryPath, library_path(torch, before == environment.end() ? "" : before->second).c_str(), 1);
  const std::string trainer = std::filesystem::read_symlink("/proc/self/exe").parent_path() / kTrainer;
  execv(trainer.c_str(), argv);
  throw UsageError("cannot start " + trainer, std::strerror(errno), "Install ddprun-train again.");
}

}  // namespace
}  // namespace ddprun::train

int main(int, char** argv) try { ddprun::train::start(argv); } catch (const std::exception& error) {
  ddprun::print_line(stderr, std::string("train: ") + error.what());
  return ddprun::train::kUsage;
}

#include "launcher/plan/search_context.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <filesystem>

#include "agent/diagnosis/evidence.h"
#include "agent/process/files/regular_file.h"
#include "launcher/plan/first_line.h"
#include "rendezvous/base/error.h"

namespace ddprun::launcher {
namespace fs = std::filesystem;
namespace {

constexpr const char* kSelf = "/proc/self/exe";

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

bool is_this_binary(const std::string& path) {
  struct stat own {
  }, other{};
  return stat(kSelf, &own) == 0 && stat(path.c_str(), &other) == 0 && own.st_dev == other.st_dev &&
         own.st_ino == other.st_ino;
}

// Empty if it cannot be found out.
std::string path_called() {
  std::error_code ignored;
  const SearchContext here{variable("PATH"), {}, {}, kind_of_file};
  const std::string called =
      called_path(program_invocation_name, fs::current_path(ignored).string(), here, is_this_binary);
  return called.empty() ? own_binary() : called;
}

// Of a folder that cannot be read: none.
std::vector<std::string> names_in(const std::string& folder) {
  constexpr std::size_t kNamesMax = 50'000;
  std::vector<std::string> out;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end && out.size() < kNamesMax;
       it.increment(error))
    out.push_back(it->path().filename());
  return out;
}

}  // namespace

std::string own_binary() {
  std::array<char, PATH_MAX> path{};
  const ssize_t length = readlink(kSelf, path.data(), path.size());
  return {path.data(), static_cast<std::size_t>(std::max<ssize_t>(length, 0))};
}

FileKind kind_of_file(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return {};
  return {true, S_ISDIR(status.st_mode), access(path.c_str(), X_OK) == 0};
}

std::string own_program() {
  std::string out = path_called();
  if (out.empty()) throw Error("cannot find ddprun itself", "/proc/self/exe cannot be read");
  return out;
}

SearchContext search_context() {
  const std::string self = own_binary();
  SearchContext out{variable("PATH"), self.substr(0, self.rfind('/')), variable("PYTHON_EXEC"), kind_of_file};
  out.called = path_called;
  out.variable = variable;
  out.first_bytes = [](const std::string& path) { return agent::beginning_of_file(path, kFirstLineBytes); };
  out.python_files = agent::python_files;
  out.names_in = names_in;
  return out;
}

}  // namespace ddprun::launcher

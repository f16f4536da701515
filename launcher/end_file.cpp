#include "launcher/end_file.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "agent/process/regular_file.h"
#include "rendezvous/base/print_line.h"

namespace ddprun::launcher {
namespace {

constexpr const char* kEndFileVariable = "DDPRUN_END_FILE";

}  // namespace

std::string take_end_file_variable() {
  const char* const value = std::getenv(kEndFileVariable);
  const std::string path = value ? value : "";
  unsetenv(kEndFileVariable);
  return path;
}

void write_end_file(const std::string& path, const agent::JobEnd& end) {
  if (path.empty() || agent::replace_file(path, to_json(end))) return;
  print_line(stderr, "ddprun: cannot write " + path + " (" + kEndFileVariable + "): " + std::strerror(errno) + ".");
}

}  // namespace ddprun::launcher

#include "launcher/jobs/end_file.h"

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "agent/process/files/file_thread.h"
#include "agent/process/files/regular_file.h"
#include "rendezvous/base/print_line.h"

namespace ddprun::launcher {
namespace {

constexpr const char* kEndFileVariable = "DDPRUN_END_FILE";
constexpr std::chrono::seconds kWriteLimit{5};

}  // namespace

std::string take_end_file_variable() {
  const char* const value = std::getenv(kEndFileVariable);
  const std::string path = value ? value : "";
  unsetenv(kEndFileVariable);
  return path;
}

// By a thread: a file system that does not answer must not keep us for ever.
void write_end_file(const std::string& path, const agent::JobEnd& end) {
  if (path.empty()) return;
  const std::string name = path + " (" + kEndFileVariable + ")";
  const auto write = [path, name, text = to_json(end)] {
    return agent::replace_file(path, text) ? std::string() : "cannot write " + name + ": " + std::strerror(errno);
  };
  std::string said;
  bool has_thread;
  {
    agent::FileThread files([&said](const std::string& sentence) { said = sentence; },
                            {.last_write_limit = kWriteLimit});
    has_thread = files.post(name, 0, write);
  }
  if (!has_thread) said = write();
  if (!said.empty()) print_line(stderr, "ddprun: " + said + ".");
}

}  // namespace ddprun::launcher

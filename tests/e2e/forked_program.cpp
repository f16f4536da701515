// Under the name of another program (sh, python3), first in PATH: may be forked from a template, and becomes the next
// program of that name. So suites whose workers are shells and scripts run with --prefork, too.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <string>

#include "rendezvous/prefork/template_process.h"

namespace {

[[gnu::used, gnu::retain]] const char kMark[] = "ddprun7prefork";  // as a program has that calls ddprun::prefork()

}  // namespace

int main(int argc, char** argv) {
  namespace fs = std::filesystem;
  ddprun::serve_as_template(argc, argv);
  const fs::path self = fs::read_symlink("/proc/self/exe"), name = self.filename();
  std::stringstream folders(std::getenv("PATH"));
  for (std::string folder; std::getline(folders, folder, ':');) {
    const fs::path program = fs::path(folder) / name;
    std::error_code error;
    if (!fs::exists(program, error) || fs::equivalent(program, self, error)) continue;
    execv(program.c_str(), argv);
  }
  std::fprintf(stderr, "%s: %s\n", name.c_str(), std::strerror(ENOENT));
  return 127;
}

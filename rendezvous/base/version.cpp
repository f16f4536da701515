#include "rendezvous/base/version.h"

namespace ddprun {

const char* version() { return DDPRUN_VERSION; }

std::string version_line(const std::string& program, const std::string& commit) {
  return program + " " + version() + " (commit " + commit + ")\n";
}

}  // namespace ddprun

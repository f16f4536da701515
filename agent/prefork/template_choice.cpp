#include "agent/prefork/template_choice.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cstring>
#include <string_view>

#include "agent/process/worker_env.h"
#include "rendezvous/base/fd.h"
#include "rendezvous/prefork/fork_request.h"

namespace ddprun::agent {
namespace {

// Other programs would do their work where they should wait.
bool calls_prefork(const std::string& program) {
  const Fd file(open(program.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat facts {};
  if (!file || fstat(file.get(), &facts) != 0 || facts.st_size == 0) return false;
  const auto bytes = static_cast<std::size_t>(facts.st_size);
  void* const at = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (at == MAP_FAILED) return false;
  const std::string_view mark = kPreforkMark;
  const bool found = memmem(at, bytes, mark.data(), mark.size()) != nullptr;
  munmap(at, bytes);
  return found;
}

}  // namespace

std::string why_no_template(const std::string& name, const std::string& program, bool python) {
  if (with_local_rank({name}, 0).front() != name) return "each local rank has a program of its own";
  if (!python && !calls_prefork(program)) return name + " is neither run by Python nor calls ddprun::prefork()";
  return {};
}

}  // namespace ddprun::agent

// Workers that are forked from a template (--prefork).
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cstring>
#include <string_view>
#include <utility>

#include "agent/agent.h"
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

void Agent::start_template() {
  if (!options_.prefork) return;
  const auto say = [this](const std::string& line) { pipes_.print("ddprun: " + line + ".\n"); };
  const WorkerCommand& command = options_.command;
  const bool python = options_.prefork->python;
  if (with_local_rank({command.name}, 0).front() != command.name)
    return say("workers are started without --prefork, as each local rank has a program of its own");
  if (!python && !calls_prefork(command.program))
    return say("workers are started without --prefork, as " + command.name +
               " is neither run by Python nor calls ddprun::prefork()");
  const Environment own = common_variables(command.job, options_.workers, command.inherited);
  TemplateCommand of{command.program,          command.argv, merged(command.inherited, own),
                     command.core_dumps,       python,       options_.prefork->imports,
                     options_.prefork->learned};
  template_.emplace(io_, std::move(of), say, [this] { on_template(); });
  template_->start();
}

void Agent::on_template() {
  if (!std::exchange(awaits_template_, false) || contact_.signal() != 0) return;
  if (contact_.coordination().connected()) offer_node();
}

void Agent::sweep_leftovers(int round) {
  std::vector<pid_t> spared = workers_.parked();
  if (template_ && template_->child()) spared.push_back(*template_->child());
  sweep_.begin(round, cgroup_ ? &*cgroup_ : nullptr, std::move(spared));
}

}  // namespace ddprun::agent

#include "agent/stacks/trace_refusal.h"

#include <linux/capability.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "agent/process/files/file_content.h"
#include "agent/process/process_table.h"

namespace ddprun::agent {
namespace {

constexpr const char* kCapability = "CAP_SYS_PTRACE (in a container: --cap-add=SYS_PTRACE)";
constexpr int kGenerationsMax = 64;  // between a worker and us

std::string field_of(const std::string& status, const std::string& name) {
  const std::string key = "\n" + name + ":\t";
  const std::size_t at = status.find(key);
  if (at == status.npos) return "";
  const std::size_t begin = at + key.size();
  return status.substr(begin, status.find('\n', begin) - begin);
}

// "Uid:" has the real, effective, saved and file system's user.
uid_t effective_user(const std::string& status) {
  const std::string users = field_of(status, "Uid");
  return static_cast<uid_t>(std::strtoul(users.substr(users.find('\t') + 1).c_str(), nullptr, 10));
}

bool descends_from_us(pid_t pid) {
  for (int i = 0; i < kGenerationsMax && pid > 1; ++i) {
    if (pid == getpid()) return true;
    const auto process = task_stat(pid);
    if (!process) return false;
    pid = process->parent;
  }
  return false;
}

// The kernel gives what is in the folder of a process that is not dumpable to root, proc(5), but not the folder itself.
bool looks_dumpable(pid_t pid, uid_t user) {
  struct stat descriptors {};
  return stat((table_entry(pid) / "fd").c_str(), &descriptors) != 0 || descriptors.st_uid == user;
}

std::string by_yama(const TraceRefusal& refusal) {
  const int scope = *refusal.yama_scope;
  const std::string setting = "kernel.yama.ptrace_scope is " + std::to_string(scope);
  if (scope >= 3) return setting + ", which forbids to trace any process until the machine starts again without it";
  if (refusal.may_trace_all) return "";
  if (scope == 2)
    return setting + ", which allows to trace only with CAP_SYS_PTRACE: set it to 1, or run ddprun with " + kCapability;
  if (scope == 1 && !refusal.is_descendant)
    return setting + ", which allows to trace only descendants: set it to 0, or run ddprun with " + kCapability;
  return "";
}

}  // namespace

std::string in_words(const TraceRefusal& refusal) {
  if (refusal.tracer != 0)
    return "process " + std::to_string(refusal.tracer) +
           (refusal.tracer_name.empty() ? "" : " (" + refusal.tracer_name + ")") +
           " traces it already, and only one can: end that one";
  if (refusal.yama_scope)
    if (std::string why = by_yama(refusal); !why.empty()) return why;
  if (!refusal.may_trace_all && refusal.its_user != refusal.our_user)
    return "it runs as user " + std::to_string(refusal.its_user) + " and ddprun as user " +
           std::to_string(refusal.our_user) + ": run both as one user, or ddprun with " + kCapability;
  if (!refusal.may_trace_all && !refusal.is_dumpable)
    return std::string(
               "it is not dumpable (PR_SET_DUMPABLE, or a program file that its user may not read): make it "
               "dumpable, or run ddprun with ") +
           kCapability;
  return std::string("a security module, a seccomp profile or a user namespace forbids ptrace: run ddprun with ") +
         kCapability;
}

TraceRefusal trace_refusal(pid_t pid) {
  TraceRefusal refusal;
  const std::string status = file_content(table_entry(pid) / "status");
  refusal.tracer =
      std::atoi(field_of(status, "TracerPid").c_str());  // NOLINT(bugprone-unchecked*): the kernel's number
  if (refusal.tracer != 0)
    refusal.tracer_name = field_of("\n" + file_content(table_entry(refusal.tracer) / "status"), "Name");
  if (const std::string scope = file_content("/proc/sys/kernel/yama/ptrace_scope"); !scope.empty())
    refusal.yama_scope = std::atoi(scope.c_str());  // NOLINT(bugprone-unchecked*): the kernel's number
  const std::string capabilities = field_of(file_content("/proc/thread-self/status"), "CapEff");
  refusal.may_trace_all = std::strtoull(capabilities.c_str(), nullptr, 16) >> CAP_SYS_PTRACE & 1;
  refusal.our_user = geteuid();
  refusal.its_user = effective_user(status);
  refusal.is_descendant = descends_from_us(pid);
  refusal.is_dumpable = looks_dumpable(pid, refusal.its_user);
  return refusal;
}

}  // namespace ddprun::agent

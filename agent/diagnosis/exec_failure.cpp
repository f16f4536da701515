#include "agent/diagnosis/exec_failure.h"

#include <elf.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <optional>

namespace ddprun::agent {
namespace {

constexpr int kDepthMax = 4;                // interpreters of interpreters, the kernel's limit
constexpr std::size_t kFirstLineMax = 255;  // how much the kernel reads of a script's first line

// Reads a T at `offset` of `head`, if all its bytes are there.
template <class T>
std::optional<T> at(const std::string& head, std::size_t offset) {
  if (offset > head.size() || head.size() - offset < sizeof(T)) return {};
  T value;
  std::memcpy(&value, head.data() + offset, sizeof value);
  return value;
}

bool is_elf(const std::string& head) { return head.starts_with(ELFMAG); }
bool is_script(const std::string& head) { return head.starts_with("#!"); }

constexpr unsigned char kOurOrder = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB;

std::uint16_t elf_machine(const std::string& head) {
  auto machine = at<std::uint16_t>(head, offsetof(Elf64_Ehdr, e_machine)).value_or(EM_NONE);
  const bool other_order = head.size() > EI_DATA && static_cast<unsigned char>(head[EI_DATA]) != kOurOrder;
  return other_order ? static_cast<std::uint16_t>(machine << 8 | machine >> 8) : machine;
}

// The loader a dynamically linked program asks for.
template <class Header, class Segment>
std::string loader(const std::string& head) {
  const auto header = at<Header>(head, 0);
  if (!header || header->e_phentsize != sizeof(Segment)) return {};
  for (std::size_t i = 0; i < header->e_phnum; ++i) {
    const auto segment = at<Segment>(head, header->e_phoff + i * sizeof(Segment));
    if (!segment) return {};
    if (segment->p_type != PT_INTERP || segment->p_offset >= head.size()) continue;
    const std::string name = head.substr(segment->p_offset, segment->p_filesz);
    return name.substr(0, name.find('\0'));
  }
  return {};
}

std::string loader_of(const std::string& head) {
  if (head.size() <= EI_CLASS) return {};
  return head[EI_CLASS] == ELFCLASS32 ? loader<Elf32_Ehdr, Elf32_Phdr>(head) : loader<Elf64_Ehdr, Elf64_Phdr>(head);
}

// The first word after "#!", a carriage return included: to the kernel it is part of the name.
std::string interpreter_of(const std::string& head) {
  std::string line = head.substr(2, std::min(head.find('\n'), kFirstLineMax) - 2);
  line.erase(0, std::min(line.find_first_not_of(" \t"), line.size()));
  return line.substr(0, line.find_first_of(" \t"));
}

std::string quoted(const std::string& word) { return "'" + word + "'"; }

std::string why(int error, const ProgramFile& file, std::uint16_t machine, const LookAt& look_at, int depth);

std::string missing_loader(const std::string& path) {
  const bool musl = path.find("musl") != std::string::npos;
  return "it needs the loader " + path + ", which is not there: it was built for " +
         (musl ? "a system with the C library musl" : "another system or distribution");
}

std::string bad_interpreter(int error, const ProgramFile& script, std::uint16_t machine, const LookAt& look_at,
                            int depth) {
  const std::string name = interpreter_of(script.head);
  if (name.empty()) return "its first line, #!, names no interpreter";
  if (name.ends_with('\r'))
    return "its first line ends in a carriage return, as Windows writes it, so the interpreter " +
           quoted(name.substr(0, name.size() - 1) + "\\r") + " is not found: remove the carriage returns (dos2unix)";
  if (depth >= kDepthMax) return "its interpreters name each other: #! must lead to a program";
  const ProgramFile interpreter = look_at(name);
  if (!interpreter.exists && interpreter.dangling_to.empty())
    return "its first line asks for the interpreter " + name + ", which is not there";
  return "its interpreter " + name + ": " + why(error, interpreter, machine, look_at, depth + 1);
}

std::string not_there(const ProgramFile& file, std::uint16_t machine, const LookAt& look_at, int depth) {
  if (!file.dangling_to.empty()) return "it is a link to " + file.dangling_to + ", which is not there";
  if (!file.exists) return "there is no such file";
  if (is_script(file.head)) return bad_interpreter(ENOENT, file, machine, look_at, depth);
  if (const std::string path = loader_of(file.head); !path.empty() && !look_at(path).exists)
    return missing_loader(path);
  return "something it needs to start is not there";
}

std::string not_allowed(const ProgramFile& file, std::uint16_t machine, const LookAt& look_at, int depth) {
  if (file.folder) return "it is a folder: name the program inside it";
  if (!file.exists) return "this user may not search a folder on its path";
  if (!file.runnable) return "it has no run permission: chmod +x " + file.path;
  if (file.on_noexec) return "its file system is mounted noexec: copy it elsewhere, or mount that with exec";
  if (is_script(file.head)) return bad_interpreter(EACCES, file, machine, look_at, depth);
  return "a rule of this machine (SELinux, AppArmor, a seccomp filter) does not let it run";
}

std::string wrong_format(const ProgramFile& file, std::uint16_t machine, const LookAt& look_at, int depth) {
  if (file.head.empty()) return "the file is empty";
  if (is_script(file.head)) return bad_interpreter(ENOEXEC, file, machine, look_at, depth);
  if (!is_elf(file.head))
    return "it is neither a program nor a script: a script needs a first line that names its interpreter, such as "
           "#!/bin/sh";
  if (elf_machine(file.head) != machine)
    return "it is built for " + machine_name(elf_machine(file.head)) + ", and this machine is " + machine_name(machine);
  return "it is not a complete program: cut short, or a library or object file";
}

std::string why(int error, const ProgramFile& file, std::uint16_t machine, const LookAt& look_at, int depth) {
  switch (error) {
    case ENOENT:
      return not_there(file, machine, look_at, depth);
    case EACCES:
      return not_allowed(file, machine, look_at, depth);
    case ENOEXEC:
      return wrong_format(file, machine, look_at, depth);
    case ENOTDIR:
      return "a part of its path is not a folder";
    case EISDIR:
      return "it is a folder: name the program inside it";
    case ETXTBSY:
      return "it is open for writing, perhaps by a copy or a build that still runs";
    case E2BIG:
      return "its arguments and environment are too long together (a quarter of the stack limit, ulimit -s; one alone "
             "128 KiB)";
    case ELOOP:
      return "too many links on its path, or links in a loop; or its interpreters name each other";
    case ELIBBAD:
      return "its loader " + loader_of(file.head) + " is not a program";
    case EAGAIN:
      return "this user or control group may have no more processes (ulimit -u, pids.max)";
    case ENOMEM:
      return "there was no memory for another process";
    case EMFILE:
    case ENFILE:
      return "too many files are open (ulimit -n)";
    case EPERM:
      return "this user may not start it: a security rule, or a file system mounted nosuid";
  }
  return std::strerror(error);
}

}  // namespace

std::string why_not_started(int error, const ProgramFile& file, std::uint16_t machine, const LookAt& look_at) {
  return why(error, file, machine, look_at, 0);
}

std::string machine_name(std::uint16_t elf_machine) {
  switch (elf_machine) {
    case EM_X86_64:
      return "x86_64";
    case EM_AARCH64:
      return "aarch64";
    case EM_386:
      return "x86 (32 bits)";
    case EM_ARM:
      return "ARM (32 bits)";
    case EM_PPC64:
      return "ppc64";
    case EM_RISCV:
      return "RISC-V";
    case EM_S390:
      return "s390x";
  }
  return "processor type " + std::to_string(elf_machine);
}

}  // namespace ddprun::agent

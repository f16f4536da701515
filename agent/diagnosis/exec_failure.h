// Why a program could not be started, in a sentence that names what to mend.
//
// Pure: the kernel's errno, what lies at the path, and how to look at the other files it asks for (its interpreter, its
// loader). evidence.h looks.
#pragma once
#include <cstdint>
#include <functional>
#include <string>

namespace ddprun::agent {

struct ProgramFile {
  std::string path = {};
  bool exists = false;
  bool folder = false;
  bool runnable = false;         // we may execute it, as far as its mode goes
  bool on_noexec = false;        // its file system is mounted noexec
  std::string dangling_to = {};  // a link's target that is not there
  std::string head = {};         // its first kHeadBytes
  static constexpr std::size_t kHeadBytes = 8192;
};

using LookAt = std::function<ProgramFile(const std::string& path)>;

// `machine` is e_machine of our own programs, such as EM_X86_64. Lower case, without a final stop: "there is no such
// file".
std::string why_not_started(int error, const ProgramFile& file, std::uint16_t machine, const LookAt& look_at);

// "x86_64"; "processor type 4711" where it is an unusual one.
std::string machine_name(std::uint16_t elf_machine);

}  // namespace ddprun::agent

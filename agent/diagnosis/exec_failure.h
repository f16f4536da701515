// Explains why a program could not be started, in a sentence that names what to fix.
//
// Pure: from the kernel's errno, the file at the path, and a function that reads the files it needs (its interpreter,
// its loader). evidence.h reads them.
#pragma once
#include <cstdint>
#include <functional>
#include <string>

namespace ddprun::agent {

struct ProgramFile {
  std::string path = {};
  bool exists = false;
  bool folder = false;
  bool runnable = false;         // its mode allows us to execute it
  bool on_noexec = false;        // its file system is mounted noexec
  std::string dangling_to = {};  // a link's target that does not exist
  std::string head = {};         // its first kHeadBytes
  static constexpr std::size_t kHeadBytes = 8192;
};

using LookAt = std::function<ProgramFile(const std::string& path)>;

// `machine`: e_machine of our own programs, such as EM_X86_64. Lower case, without a final stop: "there is no such
// file".
std::string why_not_started(int error, const ProgramFile& file, std::uint16_t machine, const LookAt& look_at);

// "x86_64"; "processor type 4711" if it has no name here.
std::string machine_name(std::uint16_t elf_machine);

}  // namespace ddprun::agent

// Finds where the kernel puts the core file of a worker that crashed, from core_pattern.
//
// Pure: evidence.h reads the pattern and looks for the file.
#pragma once
#include <sys/types.h>

#include <string>

namespace ddprun::agent {

struct CoreFacts {
  std::string pattern = {};  // content of /proc/sys/kernel/core_pattern
  bool uses_pid = false;     // /proc/sys/kernel/core_uses_pid: ".PID" is added where the pattern has no %p
  std::string folder = {};   // the worker's working folder
  std::string host = {};
  pid_t pid = 0;
  int signal = 0;
  uid_t user = 0;
  gid_t group = 0;
};

struct CorePlace {
  std::string handler = {};  // the program that the kernel pipes cores to; empty: they are files
  // For glob(3): the file's path, with '*' for what only the kernel knows (time, thread, name, which the program may
  // change).
  std::string path = {};
};

CorePlace core_place(const CoreFacts& facts);

// How to read a core that `handler` has received.
std::string handler_in_words(const std::string& handler, pid_t pid);

}  // namespace ddprun::agent

// Reads what workers wrote, error files and the ends of logs, and the script that they run. In a thread where they may
// be on a file server: one that does not answer costs the caller a second, once, and a report its quotations.
//
// For the thread of the io_context.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "agent/process/files/file_thread.h"
#include "agent/process/files/regular_file.h"

namespace ddprun::agent {

class WorkerFiles {
 public:
  // `by_thread`: else they are temporary files, which the caller's thread reads. `say` gets sentences without their
  // end.
  WorkerFiles(bool by_thread, std::function<void(const std::string&)> say);

  // Empty: there is none, or it cannot be read now.
  std::string error_file(const std::filesystem::path& path, Links links);
  std::string script(const std::filesystem::path& path);
  // newest_part() of regular_file.h.
  std::string newest(const std::filesystem::path& path, std::uintmax_t begin);

 private:
  std::string read(const std::filesystem::path& path, const std::function<std::string()>& read);

  std::optional<FileThread> thread_;
};

}  // namespace ddprun::agent

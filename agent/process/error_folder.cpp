#include "agent/process/error_folder.h"

#include <system_error>

namespace ddprun::agent {
namespace fs = std::filesystem;
namespace {

bool holds_files(const fs::path& folder) {
  std::error_code ignored;
  for (fs::recursive_directory_iterator entry(folder, ignored), end; entry != end; entry.increment(ignored)) {
    if (entry->path().filename() == kRecordFolder) entry.disable_recursion_pending();
    if (entry->is_regular_file(ignored)) return true;
  }
  return false;
}

}  // namespace

bool remove_without_error_files(const fs::path& folder) {
  if (holds_files(folder)) return true;
  std::error_code ignored;
  fs::remove_all(folder, ignored);
  return false;
}

}  // namespace ddprun::agent

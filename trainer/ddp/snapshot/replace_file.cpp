#include "trainer/ddp/snapshot/replace_file.h"

#include <filesystem>
#include <system_error>

#include "rendezvous/base/error.h"
#include "rendezvous/base/random_name.h"
#include "trainer/ddp/snapshot/files.h"

namespace ddprun {
namespace {

// A link's target, so that the link stays; a device or a pipe must not be replaced by a file.
std::string target_of(const std::string& path, const std::string& what) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  if (fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status))
    throw Error("cannot write " + what + " " + path, "it is not a regular file", "Name another place.");
  if (!fs::is_symlink(fs::symlink_status(path, ignored)) || !fs::exists(status)) return path;
  return fs::canonical(path, ignored);
}

}  // namespace

void replace_file(const std::string& name, const std::vector<std::string_view>& pieces, const std::string& what) {
  const std::string path = target_of(name, what);
  const std::string temporary = temporary_name(path);
  try {
    const auto file = disk().create(temporary);
    for (const std::string_view piece : pieces) file->append(piece.data(), piece.size());
    file->sync();
    disk().rename(temporary, path);
    disk().sync_folder(folder_of(path));
  } catch (const std::system_error& error) {
    remove_if_possible(disk(), temporary);
    const Refusal refusal = refusal_of(path, error.code().value());
    throw Error("cannot write " + what + " " + path, refusal.why, refusal.remedy);
  }
}

}  // namespace ddprun

#include "trainer/ddp/replace_file.h"

#include <unistd.h>

#include <system_error>

#include "rendezvous/error.h"
#include "trainer/ddp/files.h"

namespace ddprun {
namespace {

void remove_if_possible(const std::string& path) {
  try {
    disk().remove(path);
  } catch (const std::system_error&) {
    // What hindered the writing says more.
  }
}

}  // namespace

void replace_file(const std::string& path, const std::vector<std::string_view>& pieces, const std::string& what) {
  const std::string temporary = path + ".writing." + std::to_string(getpid());
  try {
    const auto file = disk().create(temporary);
    for (const std::string_view piece : pieces) file->append(piece.data(), piece.size());
    file->sync();
    disk().rename(temporary, path);
    disk().sync_folder(folder_of(path));
  } catch (const std::system_error& error) {
    remove_if_possible(temporary);
    throw Error("cannot write " + what + " " + path, error.code().message(),
                "Free some space there, or name another place.");
  }
}

}  // namespace ddprun

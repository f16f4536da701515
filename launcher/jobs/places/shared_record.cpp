#include "launcher/jobs/places/shared_record.h"

#include <unistd.h>

#include "rendezvous/base/error.h"

namespace ddprun::launcher {
namespace {

constexpr const char* kShare =
    "All nodes of a job must share the folder of its record: set XDG_STATE_HOME to one that they share, and submit "
    "again";

std::string this_node() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "this node";
}

}  // namespace

void check_shared_record(const std::filesystem::path& folder) {
  const std::string what = "cannot run the job of the record " + folder.string();
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error))
    throw UsageError(what, "there is no such folder on " + this_node(), kShare);
  if (!std::filesystem::exists(folder / "job.toml", error))
    throw UsageError(what, "it has no job.toml on " + this_node(), kShare);
  if (access(folder.c_str(), W_OK) != 0) throw UsageError(what, this_node() + " may not write to it", kShare);
}

}  // namespace ddprun::launcher

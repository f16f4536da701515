// Copies a folder to the hosts of a job before it starts, for hosts without a shared disk (--sync), by rsync.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "launcher/jobs/places/program_run.h"
#include "rendezvous/base/error.h"

namespace ddprun::launcher {

// To the same path there, what differs, over the same ssh. Nothing is deleted or replaced by something older; what
// .gitignore names, and .git, stays here. `folder` is absolute. Pure.
std::vector<std::string> rsync_command(const std::vector<std::string>& ssh, const std::string& folder,
                                       const std::string& host);

struct FolderCopy {
  long files = 0;    // that were sent
  double bytes = 0;  // over the network
};
FolderCopy copied_of(const std::string& rsync_stats);  // of rsync --stats; pure

// Why one failed; empty: it has not, or ssh could not reach the host, which the job's start will tell. Pure.
std::optional<Error> copy_failure(const std::string& folder, const std::string& host, const ProgramEnd& end);

// To all of them, 16 at a time; says on stderr what it has sent. Throws Error, and then no host may be
// expected to have it.
void copy_folder(const std::vector<std::string>& ssh, const std::string& folder, const std::vector<std::string>& hosts);

}  // namespace ddprun::launcher

// Copies a folder to the hosts of a job before it starts, for hosts without a shared disk (--sync), by rsync.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "launcher/scheduler/program_run.h"
#include "rendezvous/base/error.h"

namespace ddprun::launcher {

// To the same path there, what differs, over the same ssh. Nothing is deleted or replaced by something older; what
// .gitignore names, and .git, stays here. `folder` is absolute. Pure.
std::vector<std::string> rsync_command(const std::vector<std::string>& ssh, const std::string& folder,
                                       const std::string& host);

struct FolderCopy {
  long files = 0;    // that were sent
  double bytes = 0;  // over the network
  std::vector<std::string> newer_there = {};
};
FolderCopy copied_of(const std::string& rsync_said);  // by that command; pure
// A sentence that names some of them, or nothing. Pure.
std::string newer_files(const std::string& host, const std::vector<std::string>& files);

// Why one failed; empty: it has not. A host that ssh did not reach now and reaches a moment later would run an older
// program. Pure.
std::optional<Error> copy_failure(const std::vector<std::string>& ssh, const std::string& folder,
                                  const std::string& host, const ProgramEnd& end);

// To all of them, 16 at a time; says on stderr what it has sent. Throws Error, and then no host may be
// expected to have it.
void copy_folder(const std::vector<std::string>& ssh, const std::string& folder, const std::vector<std::string>& hosts);

}  // namespace ddprun::launcher

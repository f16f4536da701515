// A folder with a file system at "stuck" that does not answer (stuck_file_system.cpp), until answer() is called.
#pragma once
#include <sys/mount.h>

#include <csignal>
#include <filesystem>
#include <optional>

#include "tests/e2e/programs.h"
#include "tests/support/command.h"
#include "tests/support/places.h"

namespace ddprun::test {

class StuckFolder {
 public:
  StuckFolder() {
    std::filesystem::create_directory(folder_ / "stuck");
    server_.emplace(std::vector<std::string>{programs_folder() + "/stuck_file_system", folder_ / "stuck"});
    eventually([&] { return !server_->out().empty() || server_->ended(); }, kLimit);
    if (server_->ended()) server_.reset();
  }
  ~StuckFolder() { umount2((folder_ / "stuck").c_str(), MNT_DETACH); }  // the server may be killed, and the mount stays
  StuckFolder(const StuckFolder&) = delete;
  StuckFolder& operator=(const StuckFolder&) = delete;
  bool mounted() const { return server_.has_value(); }  // false: no FUSE here, or we may not mount
  void answer() { server_->kill(SIGTERM); }
  const std::filesystem::path& folder() const { return folder_.path(); }
  void write(const std::string& name) const { folder_.write(name, ""); }

 private:
  TempFolder folder_;
  std::optional<Command> server_;
};

}  // namespace ddprun::test

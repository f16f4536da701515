// Makes the folders of a round's workers and opens their log files before the round begins, in a thread: a file system
// that does not answer delays the round for some time, and the loop never.
//
// For the thread of the io_context.
#pragma once
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include "agent/logs/log_file.h"
#include "agent/process/files/file_thread.h"

namespace ddprun::agent {

// Of one worker.
struct WantedFiles {
  std::filesystem::path folder;
  std::vector<std::filesystem::path> own = {};   // the worker writes them itself
  std::vector<std::filesystem::path> ours = {};  // we do
};

struct MadeFiles {
  std::string problem = {};  // a sentence: why there is no folder; empty: there is one
  std::map<std::filesystem::path, OpenedFile> own = {};
};

// Whatever happens to a file of ours is told by its first write.
MadeFiles make_files(const WantedFiles& wanted);

class RoundFiles {
 public:
  using Make = std::function<MadeFiles(const WantedFiles&)>;
  // `say` gets sentences without their end, in any thread.
  RoundFiles(asio::io_context& io, std::function<void(const std::string&)> say, Make make = make_files,
             FileThread::Options limits = {.last_write_limit = Duration::zero()});
  // By rank. Calls `ready` once they are made, or given up, which is told: at once if the disk is as fast as disks are.
  // Another call takes the place of one that is not ready.
  void make(const std::filesystem::path& round_folder, std::map<int, WantedFiles> wanted,
            const std::function<void()>& ready);
  // Of the last call: empty if they were given up. Open files are handed out once.
  std::optional<MadeFiles> take(int rank);

 private:
  struct Answer;
  void await(const std::shared_ptr<Answer>& answer, TimePoint until, const std::function<void()>& ready);

  const Make make_;
  const FileThread::Options limits_;
  FileThread thread_;
  asio::steady_timer timer_;
  std::shared_ptr<Answer> answer_;  // of the last call
};

}  // namespace ddprun::agent

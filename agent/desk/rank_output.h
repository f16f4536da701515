// Answers who asks, here or at another node, for the output of a rank that runs here (status/log_request.h).
//
// For the thread of the io_context; replies are called there. Files are read in a thread of their own: where a file
// system does not answer, the reply says so.
#pragma once
#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include "agent/logs/kept_output.h"
#include "agent/process/files/file_thread.h"
#include "agent/status/log_request.h"
#include "rendezvous/base/time.h"

namespace ddprun::agent {

struct FilePiece {
  FilePosition begin = {};
  bool more = false;
  std::string bytes = {};
};
// What follows `from`, at most `most` bytes; empty: of the last 1 MiB, from a whole line on. Of a file that was rotated
// meanwhile the rest comes first; another file, or one that is shorter now, is read from its beginning. Nothing where
// it cannot be read.
FilePiece read_log_file(const std::filesystem::path& file, const std::optional<FilePosition>& from, std::size_t most);

class RankOutput {
 public:
  using Reply = std::function<void(const LogAnswer&)>;
  static constexpr std::chrono::milliseconds kTryAgain{100};  // for who waits
  // Waits a moment for what a worker that has ended has left in its pipes; may be empty.
  using Complete = std::function<void(int round, int rank)>;
  // `kept` may be null: no output is kept here.
  RankOutput(asio::io_context& io, std::string host, std::shared_ptr<const KeptOutput> kept, Complete complete);
  ~RankOutput();
  RankOutput(const RankOutput&) = delete;
  RankOutput& operator=(const RankOutput&) = delete;

  // Replies at once, or within four seconds if the request waits, or if files are slow.
  void read(const LogRequest& request, Reply reply);
  // Replies now to who waits for this rank: the job may end with it.
  void worker_ended(int round, int rank);

 private:
  struct Files {
    std::optional<FilePiece> out = {}, err = {};
  };
  struct Reader {
    LogRequest request;
    Reply reply;
    TimePoint until;
    std::unique_ptr<asio::steady_timer> timer;
    bool awaits_files = false, is_last = false;
  };
  struct Owner;  // us, as the thread sees us
  static Files read_files(const KeptOutput::Worker& worker, const LogPosition& from);
  FileThread& file_thread();
  void try_reading(int serial);
  void try_later(int serial, TimePoint at);
  void begin_files(int serial, const KeptOutput::Worker& worker);
  void finish(int serial, const Files& files);
  void reply(int serial, const LogAnswer& answer);
  LogPosition position_of(const LogRequest& request, int local_rank) const;

  asio::io_context& io_;
  const std::string host_;
  std::string id_ = {};  // no other agent has it, nor this one when it is started again; from the first request on
  const std::shared_ptr<const KeptOutput> kept_;
  std::optional<FileThread> thread_;  // from the first file on
  std::shared_ptr<Owner> owner_;
  const Complete complete_;
  std::map<int, Reader> readers_;
  int last_ = 0;
};

}  // namespace ddprun::agent

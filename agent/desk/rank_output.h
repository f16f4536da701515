// Answers who asks, here or at another node, for the output of a rank that runs here (status/log_request.h).
//
// For the thread of the io_context; replies are called there. Files are read in a thread of their own: where a file
// system does not answer, the reply says so.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include "agent/logs/kept_output.h"
#include "agent/process/file_thread.h"
#include "agent/status/log_request.h"
#include "rendezvous/base/time.h"

namespace ddprun::agent {

// A piece of a file from `begin` on, as KeptOutput::read() of bytes; empty: of its last 1 MiB. A file that is shorter
// was begun anew. Nothing where it cannot be read.
KeptOutput::Piece read_log_file(const std::filesystem::path& file, std::optional<std::uint64_t> begin,
                                std::size_t most);

class RankOutput {
 public:
  using Reply = std::function<void(const LogAnswer&)>;
  // Waits a moment for what a worker that has ended has left in its pipes; may be empty.
  using Complete = std::function<void(int round, int rank)>;
  // `kept` may be null: nothing is known of any rank.
  RankOutput(asio::io_context& io, std::string host, std::shared_ptr<const KeptOutput> kept, Complete complete);
  ~RankOutput();
  RankOutput(const RankOutput&) = delete;
  RankOutput& operator=(const RankOutput&) = delete;

  // Replies at once, or within four seconds if the request waits, or if files are slow.
  void answer(const LogRequest& request, Reply reply);
  // Answers now who waits for this rank: the job may end with it.
  void worker_ended(int round, int rank);

 private:
  struct Files {
    std::optional<KeptOutput::Piece> out = {}, err = {};
  };
  static Files read(const KeptOutput::Worker& worker, const LogPosition& from);
  struct Asked {
    LogRequest request;
    Reply reply;
    TimePoint until;
    std::unique_ptr<asio::steady_timer> timer;
    bool reads = false;
  };
  struct Owner;  // us, as the thread sees us
  FileThread& file_thread();
  void look(int serial);
  void look_later(int serial, TimePoint at);
  bool read_files(int serial, const KeptOutput::Worker& worker, const LogPosition& from);
  void finish(int serial, const Files& files);
  void reply(int serial, const LogAnswer& answer);
  LogPosition position_of(const LogRequest& request, const KeptOutput::Worker& worker) const;

  asio::io_context& io_;
  const std::string host_, id_;  // id_: no other agent has it, nor this one when it is started again
  const std::shared_ptr<const KeptOutput> kept_;
  std::optional<FileThread> thread_;  // from the first file on
  std::shared_ptr<Owner> owner_;
  const Complete complete_;
  std::map<int, Asked> asked_;
  int last_ = 0;
};

}  // namespace ddprun::agent

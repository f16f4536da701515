// Keeps the job's restart ledger in --state-dir, so that the next start of the job continues it, and the names of
// excluded machines in --exclude-file.
//
// The file thread writes: a file server that does not answer must not stop the coordinator. The newest record wins.
#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "agent/process/files/file_thread.h"
#include "rendezvous/coordination/round/round.h"

namespace ddprun::agent {

class JobState {
 public:
  // Empty: no such file. Names of excluded machines are added, and stay.
  struct Files {
    std::filesystem::path ledger = {}, excluded = {};
  };
  // `thread` must outlive it.
  JobState(Files files, FileThread& thread);

  // From any thread. `outcome` is null while the job runs. A job that has ended for good leaves no file.
  void save(const rendezvous::LedgerRecord& record, const rendezvous::Outcome* outcome);

 private:
  struct Shared;
  FileThread& thread_;
  const std::shared_ptr<Shared> shared_;  // with the thread
};

// DIR/<run id>.ledger.json
std::filesystem::path state_file(const std::filesystem::path& folder, const std::string& run_id);

// The record of the last start; empty if there is none. `complain` gets a line if the file cannot be used.
rendezvous::LedgerRecord load_state(const std::filesystem::path& file,
                                    const std::function<void(const std::string& line)>& complain);

}  // namespace ddprun::agent

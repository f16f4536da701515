#include "agent/tell/job_state.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "agent/process/files/regular_file.h"
#include "rendezvous/base/spelling.h"
#include "rendezvous/coordination/round/ledger.h"
#include "rendezvous/coordination/wire/ledger_file.h"

namespace ddprun::agent {
namespace {

constexpr std::size_t kFileMax = 1 << 20;

std::set<std::string> names_in(const std::filesystem::path& file) {
  std::string text = file.empty() ? std::string() : beginning_of_file(file, kFileMax);
  std::replace(text.begin(), text.end(), '\n', ',');
  const std::vector<std::string> names = split(text, ',');
  std::set<std::string> out(names.begin(), names.end());
  out.erase("");
  return out;
}

// "node3,node7", as Slurm's --exclude takes it.
std::string listed_names(const std::set<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : ",") + name;
  return out + "\n";
}

std::string cannot_write(const std::filesystem::path& file, const char* option) {
  return "cannot write " + file.string() + " (" + option + "): " + std::strerror(errno);
}

}  // namespace

struct JobState::Shared {
  explicit Shared(Files to) : files(std::move(to)) {}

  struct Texts {
    std::string ledger;  // empty: remove the file
    std::string excluded;
  };
  const Files files;
  std::mutex mutex;
  std::optional<Texts> to_write;
  std::set<std::string> excluded = names_in(files.excluded);

  std::string write() {
    std::optional<Texts> texts;
    {
      const std::lock_guard lock(mutex);
      texts = std::exchange(to_write, std::nullopt);
    }
    std::string complaint;
    if (!files.ledger.empty() && !write_ledger(texts->ledger))
      complaint = cannot_write(files.ledger, "--state-dir") + "; the next start of the job will know another ledger";
    if (!files.excluded.empty() && !replace_file(files.excluded, texts->excluded))
      complaint += (complaint.empty() ? "" : ". ") + cannot_write(files.excluded, "--exclude-file");
    return complaint;
  }

  bool write_ledger(const std::string& text) const {
    if (!text.empty()) return replace_file(files.ledger, text, Readers::owner);
    return unlink(files.ledger.c_str()) == 0 || errno == ENOENT;
  }
};

JobState::JobState(Files files, FileThread& thread)
    : thread_(thread), shared_(std::make_shared<Shared>(std::move(files))) {}

void JobState::save(const rendezvous::LedgerRecord& record, const rendezvous::Outcome* outcome) {
  Shared::Texts texts;
  const bool failed = outcome && outcome->verdict == rendezvous::Verdict::worker_failed;
  if (!outcome || !rendezvous::ended_for_good(outcome->verdict))
    texts.ledger = ledger_text(for_next_start(record, failed), rendezvous::WallClock::now());
  const std::lock_guard lock(shared_->mutex);
  for (const rendezvous::ExcludedHost& host : record.excluded) shared_->excluded.insert(host.name);
  texts.excluded = listed_names(shared_->excluded);
  if (std::exchange(shared_->to_write, std::move(texts))) return;  // the thread has not written the last one yet
  const std::filesystem::path& file = shared_->files.ledger.empty() ? shared_->files.excluded : shared_->files.ledger;
  if (!thread_.post(file.string(), 0, [shared = shared_] { return shared->write(); })) shared_->to_write.reset();
}

std::filesystem::path state_file(const std::filesystem::path& folder, const std::string& run_id) {
  return folder / (run_id + ".ledger.json");
}

rendezvous::LedgerRecord load_state(const std::filesystem::path& file,
                                    const std::function<void(const std::string&)>& complain) {
  const std::string text = beginning_of_file(file, kFileMax);
  if (text.empty()) return {};
  auto read = rendezvous::read_ledger(text, rendezvous::WallClock::now());
  if (auto* record = std::get_if<rendezvous::LedgerRecord>(&read)) return std::move(*record);
  complain(file.string() + " (--state-dir) holds no restart ledger (" + std::get<rendezvous::InvalidLedger>(read).why +
           "); this start begins a new one.");
  return {};
}

}  // namespace ddprun::agent

#include "launcher/jobs/plain_record.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <utility>

#include "rendezvous/base/fd.h"
#include "rendezvous/base/random_name.h"

namespace ddprun::launcher {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kReasonMax = 64 << 10, kCommandMax = 16 << 10, kNameMax = 40, kIdLetters = 6;
constexpr MilliSeconds kSecond = 1000;
constexpr const char* kBeingWritten = ".writing.";  // begins the name of a folder that is no record, or none any more
constexpr std::chrono::hours kAbandonedAfter{1};

std::string cut(const std::string& text, std::size_t most) {
  return text.size() <= most ? text : text.substr(0, most) + " ...";
}

std::vector<std::string> cut_words(const std::vector<std::string>& words) {
  std::vector<std::string> out;
  std::size_t left = kCommandMax;
  for (const std::string& word : words) {
    out.push_back(cut(word, left));
    if (out.back().size() >= left) break;
    left -= out.back().size();
  }
  return out;
}

bool is_own(const struct stat& status) { return S_ISDIR(status.st_mode) && status.st_uid == geteuid(); }

// Root's HOME may be a user's (sudo -E): a folder of root's there would be in that user's way.
bool may_make(fs::path folder) {
  struct stat status {};
  while (folder.has_relative_path() && lstat(folder.c_str(), &status) != 0) folder = folder.parent_path();
  return geteuid() != 0 || (stat(folder.c_str(), &status) == 0 && status.st_uid == 0);
}

bool has_folder(const fs::path& folder) {
  struct stat status {};
  std::error_code failed;
  if (stat(folder.c_str(), &status) != 0 && may_make(folder)) fs::create_directories(folder, failed);
  return stat(folder.c_str(), &status) == 0 && is_own(status);
}

// The order of all records is by when a job was started.
void date(const Fd& file, MilliSeconds when) {
  constexpr long kNanoseconds = 1'000'000;
  const timespec time{static_cast<std::time_t>(when / kSecond), static_cast<long>(when % kSecond) * kNanoseconds};
  const timespec both[] = {time, time};
  futimens(file.get(), both);
}

bool write_file(const fs::path& path, const nlohmann::json& content, MilliSeconds when) {
  const Fd file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  const std::string text = text_of(content);
  if (!file || write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) return false;
  date(file, when);
  return true;
}

// Whoever reads records sees it as a whole or not at all.
void remove_record(const fs::path& folder, const std::string& name) {
  std::error_code ignored;
  const fs::path away = folder / (kBeingWritten + random_letters(kIdLetters));
  if (rename((folder / name).c_str(), away.c_str()) == 0) fs::remove_all(away, ignored);
}

struct Entry {
  std::pair<std::time_t, long> changed;
  std::string name;
};

std::vector<Entry> own_entries(const fs::path& folder) {
  std::vector<Entry> out;
  std::error_code ended;
  for (fs::directory_iterator entry(folder, ended); !ended && entry != fs::directory_iterator();
       entry.increment(ended)) {
    struct stat status {};
    if (lstat(entry->path().c_str(), &status) == 0 && is_own(status))
      out.push_back({{status.st_mtim.tv_sec, status.st_mtim.tv_nsec}, entry->path().filename()});
  }
  return out;
}

void remove_old(const fs::path& folder) {
  std::vector<Entry> records;
  const std::time_t long_ago = std::time(nullptr) - std::chrono::seconds(kAbandonedAfter).count();
  std::error_code ignored;
  for (Entry& entry : own_entries(folder))
    if (!entry.name.starts_with(kBeingWritten))
      records.push_back(std::move(entry));
    else if (entry.changed.first < long_ago)
      fs::remove_all(folder / entry.name, ignored);
  if (records.size() <= kPlainKept) return;
  std::sort(records.begin(), records.end(), [](const Entry& a, const Entry& b) { return a.changed > b.changed; });
  for (std::size_t i = kPlainKept; i < records.size(); ++i) remove_record(folder, records[i].name);
}

}  // namespace

nlohmann::json submitted_of(const PlainJob& job) {
  return {{"place", name_of(job.place)}, {"at", job.started},    {"command", cut_words(job.command)},
          {"source_dir", job.folder},    {"run_id", job.run_id}, {"event_log", job.event_log},
          {"log_folder", job.log_folder}};
}

nlohmann::json status_of(const PlainJob& job) {
  const bool has_end = job.end.is_object();
  nlohmann::json out = {
      {"state", end_state(job.exit_code)},
      {"started", job.started},
      {"ended", job.ended},
      {"seconds", static_cast<double>(job.ended - job.started) / kSecond},
      {"exit_code", job.exit_code},
      {"reason", cut(has_end ? job.end.value("message", "") : "", kReasonMax)},
      {"first_failure", has_end ? job.end.value("first_failure", nlohmann::json()) : nlohmann::json()},
      {"nodes", job.nodes},
      {"host", job.host}};
  if (job.round > 0) out.update({{"round", job.round}, {"restarts", job.restarts}});
  return out;
}

std::string plain_name(const std::string& program) {
  std::string name = fs::path(program).filename();
  if (name.ends_with(".py") && name.size() > 3) name.resize(name.size() - 3);
  std::erase_if(name, [](char c) {
    return !(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') && c != '.' && c != '_' &&
           c != '-';
  });
  name.erase(0, std::min(name.find_first_not_of(".-"), name.size()));
  name.resize(std::min(name.size(), kNameMax));
  return name.empty() ? "job" : name;
}

void keep_plain_record(const fs::path& records, const PlainJob& job) {
  const fs::path folder = records / kPlainFolder, fresh = folder / (kBeingWritten + random_letters(kIdLetters));
  if (!has_folder(folder) || mkdir(fresh.c_str(), 0700) != 0) return;
  const fs::path record = folder / (plain_name(job.program) + "-" + random_letters(kIdLetters));
  const bool kept = write_file(fresh / "submitted.json", submitted_of(job), job.started) &&
                    write_file(fresh / "status.json", status_of(job), job.ended) &&
                    rename(fresh.c_str(), record.c_str()) == 0;
  std::error_code ignored;
  if (!kept) fs::remove_all(fresh, ignored);
  remove_old(folder);
}

}  // namespace ddprun::launcher

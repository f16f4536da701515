#include "launcher/jobs/job_record.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "agent/process/files/regular_file.h"
#include "rendezvous/base/error.h"
#include "rendezvous/base/json_text.h"
#include "rendezvous/base/random_name.h"
#include "rendezvous/base/spelling.h"

namespace ddprun::launcher {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kFileMax = std::size_t{16} << 20;
constexpr int kTries = 20;
constexpr std::size_t kSuffix = 6;
constexpr std::size_t kShownIds = 8;

const char* scheme(Place place) {
  switch (place) {
    case Place::here:
      return "here";
    case Place::ssh:
      return "ssh";
    case Place::slurm:
      return "slurm";
    case Place::kubernetes:
      break;
  }
  return "k8s";
}

std::string variable(const std::map<std::string, std::string>& environment, const char* name) {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

std::string job_name_in(const std::string& id) {
  return id.size() > kSuffix ? id.substr(0, id.size() - kSuffix - 1) : id;
}

std::string shown(const std::vector<JobRecord>& records) {
  std::vector<std::string> ids;
  for (const JobRecord& record : records)
    if (ids.size() < kShownIds) ids.push_back(record.id());
  return listed(ids, "and") + (records.size() > kShownIds ? " and others" : "");
}

using nlohmann::json;

struct Kind {
  const char* text;
  bool (*is)(const json& value);
};
constexpr Kind kText{"text", [](const json& value) { return value.is_string(); }};
constexpr Kind kPlace{"place",
                      [](const json& value) { return value.is_string() && place_named(value.get<std::string>()); }};
constexpr Kind kNumber{"whole number", [](const json& value) { return value.is_number_integer(); }};
constexpr Kind kTruth{"true or false", [](const json& value) { return value.is_boolean(); }};
constexpr Kind kTexts{"list of texts", [](const json& value) {
                        return value.is_array() &&
                               std::all_of(value.begin(), value.end(), [](const json& one) { return one.is_string(); });
                      }};
using Kinds = std::vector<std::pair<const char*, Kind>>;

std::optional<std::string> wrong_in(const json& content, const Kinds& kinds, const std::string& what) {
  if (!content.is_object()) return what + " is no JSON object";
  for (const auto& [key, kind] : kinds)
    if (const auto found = content.find(key); found != content.end() && !kind.is(*found))
      return what + " has a '" + key + "' that is no " + kind.text;
  return {};
}

using DatedRecords = std::vector<std::pair<fs::file_time_type, JobRecord>>;

DatedRecords records_in(const fs::path& folder) {
  DatedRecords out;
  std::error_code ended, failed;
  for (fs::directory_iterator entry(folder, ended); !ended && entry != fs::directory_iterator();
       entry.increment(ended)) {
    const auto when = fs::last_write_time(entry->path() / "submitted.json", failed);
    const bool none = failed == std::errc::no_such_file_or_directory || failed == std::errc::not_a_directory;
    if (!none) out.emplace_back(failed ? fs::file_time_type::min() : when, JobRecord(entry->path()));
  }
  return out;
}

// A job that was started without a file has, while it runs, no name but its run id.
bool has_run_id(const JobRecord& record, const std::string& begin) {
  if (!is_plain(record)) return false;
  const json submitted = record.submitted();
  return submitted.is_object() && submitted.value("run_id", "").starts_with(begin);
}

// The first of them in which there is any: names of jobs in files go before those of other jobs.
std::vector<JobRecord> first_filled(std::initializer_list<std::vector<JobRecord>> all) {
  for (const auto& one : all)
    if (!one.empty()) return one;
  return {};
}

}  // namespace

bool is_plain(const JobRecord& record) { return record.folder().parent_path().filename() == kPlainFolder; }

std::optional<std::string> wrong_submitted(const json& content) {
  static const Kinds kAll{{"place", kPlace},     {"at", kNumber},       {"file", kText},      {"folder", kText},
                          {"overrides", kTexts}, {"arguments", kTexts}, {"tags", kTexts},     {"source_dir", kText},
                          {"program", kTexts},   {"record", kText},     {"place_id", kText},  {"unclear", kText},
                          {"command", kTexts},   {"run_id", kText},     {"event_log", kText}, {"log_folder", kText}};
  static const Kinds kKubernetes{{"name", kText}, {"namespace", kText}, {"jobset", kTruth}};
  if (auto wrong = wrong_in(content, kAll, "it")) return wrong;
  return content.contains("kubernetes") ? wrong_in(content["kubernetes"], kKubernetes, "its kubernetes") : std::nullopt;
}

std::optional<std::string> wrong_status(const json& content) {
  static const Kinds kAll{
      {"state", kText}, {"host", kText}, {"reason", kText}, {"pid", kNumber}, {"pid_start", kNumber}};
  return wrong_in(content, kAll, "it");
}

std::string name_of(Place place) { return scheme(place); }

std::optional<Place> place_named(const std::string& name) {
  for (const Place place : {Place::here, Place::ssh, Place::slurm, Place::kubernetes})
    if (name == scheme(place)) return place;
  if (name == "kubernetes") return Place::kubernetes;
  return name == "local" ? std::optional(Place::here) : std::nullopt;
}

std::string text_of(const Handle& handle) { return std::string(scheme(handle.place)) + "://" + handle.id; }

std::string text_of(const json& content) { return json_text(content, {.indent = 2}) + "\n"; }

json JobRecord::read(const char* file) const {
  auto content = parse_json(read_text(file));
  return content.is_discarded() ? json() : content;
}

json JobRecord::submitted() const {
  json content = read("submitted.json");
  return wrong_submitted(content) ? json() : content;
}

json JobRecord::status() const {
  json content = read("status.json");
  return wrong_status(content) ? json() : content;
}

std::string JobRecord::problem() const {
  const auto wrong = wrong_submitted(read("submitted.json"));
  if (!wrong) return {};
  std::string why = *wrong;
  if (read_text("submitted.json").empty())
    why = access(path("submitted.json").c_str(), R_OK) == 0 ? "it is empty or no file" : std::strerror(errno);
  return "cannot read " + path("submitted.json").string() + ": " + why +
         ". Without it nothing is known of the job; remove the folder to forget it.";
}

std::string JobRecord::read_text(const char* file) const { return agent::beginning_of_file(path(file), kFileMax); }

void JobRecord::write(const char* file, const nlohmann::json& content) const { write_text(file, text_of(content)); }

void JobRecord::write_text(const char* file, const std::string& text) const {
  if (!agent::replace_file(path(file), text, agent::Readers::owner))
    throw Error("cannot write " + path(file).string(), std::strerror(errno),
                "The job's record needs a folder with room: XDG_STATE_HOME names another one.");
}

bool has_records_folder(const std::map<std::string, std::string>& environment) {
  return fs::path(variable(environment, "XDG_STATE_HOME")).is_absolute() ||
         fs::path(variable(environment, "HOME")).is_absolute();
}

fs::path records_folder(const std::map<std::string, std::string>& environment) {
  const std::string state = variable(environment, "XDG_STATE_HOME"), home = variable(environment, "HOME");
  if (fs::path(state).is_absolute()) return fs::path(state) / "ddprun/jobs";
  if (fs::path(home).is_absolute()) return fs::path(home) / ".local/state/ddprun/jobs";
  throw UsageError("cannot keep a record of the job", "neither XDG_STATE_HOME nor HOME names a folder",
                   "Set one of them.");
}

JobRecord make_record(const fs::path& records, const std::string& job_name) {
  std::error_code failed;
  fs::create_directories(records, failed);
  for (int i = 0; i < kTries && !failed; ++i) {
    const fs::path folder = records / (job_name + "-" + random_letters(kSuffix));
    if (mkdir(folder.c_str(), 0700) == 0) return JobRecord(folder);
    if (errno != EEXIST) failed = std::error_code(errno, std::generic_category());
  }
  throw Error("cannot keep a record of the job in " + records.string(), failed.message(),
              "XDG_STATE_HOME names another folder.");
}

std::vector<JobRecord> all_records(const fs::path& records) {
  DatedRecords dated = records_in(records);
  for (auto& plain : records_in(records / kPlainFolder))
    if (!plain.second.id().starts_with('.')) dated.push_back(std::move(plain));
  std::stable_sort(dated.begin(), dated.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<JobRecord> out;
  for (auto& [when, record] : dated) out.push_back(std::move(record));
  return out;
}

std::variant<JobRecord, std::string> find_record(const fs::path& records, const std::string& words) {
  const std::size_t colon = words.find("://");
  const std::string id = colon == std::string::npos ? words : words.substr(colon + 3);
  const std::vector<JobRecord> all = all_records(records);
  std::vector<JobRecord> named, named_plain, begun, by_run_id;
  for (const JobRecord& record : all) {
    if (record.id() == id) return record;
    if (job_name_in(record.id()) == id) (is_plain(record) ? named_plain : named).push_back(record);
    if (record.id().starts_with(id)) begun.push_back(record);
    if (has_run_id(record, id)) by_run_id.push_back(record);
  }
  const std::vector<JobRecord> found = first_filled({named, named_plain, begun, by_run_id});
  if (found.size() == 1) return found.front();
  if (found.size() > 1) return "several jobs are called " + visible(id) + ": " + shown(found) + ".";
  return all.empty() ? "no job has been run or submitted here."
                     : "no job is called " + visible(id) + "; there are " + shown(all) + ".";
}

}  // namespace ddprun::launcher

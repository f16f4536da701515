// What is kept of a job that `ddprun run` or `ddprun submit` started: a folder, so that any shell finds the job again.
//
//   $XDG_STATE_HOME/ddprun/jobs/<id>/    (~/.local/state without the variable); mode 0700
//     job.toml          the job's file as it was
//     submitted.json    how to read it (folder, --set, further arguments), where it runs and under which name
//     ddprun.toml       what runs, as --config reads it
//     status.json       times, state, exit code, why it failed; written by `ddprun run` on the first node
//     events.jsonl      docs/events.md; of other nodes events-N.jsonl
//     result.json       the metrics: last, least and largest value of each
//     log               output of all ranks
// A job that was started without a file has less of it, jobs/plain/<id>: plain_record.h.
// <id> is the job's name, a dash and 6 characters of [0-9a-z], unique among the records.
#pragma once
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace ddprun::launcher {

enum class Place { here, ssh, slurm, kubernetes };
std::string name_of(Place place);  // "k8s"
std::optional<Place> place_named(const std::string& name);

// A job's name for another shell: "slurm://digits-x3k9p2". The id alone is taken, too, and a name if it is the only
// one.
struct Handle {
  Place place = Place::here;
  std::string id = {};
};
std::string text_of(const Handle& handle);

std::string text_of(const nlohmann::json& content);  // of a record's file

class JobRecord {
 public:
  explicit JobRecord(std::filesystem::path folder) : folder_(std::move(folder)) {}

  std::string id() const { return folder_.filename(); }
  std::filesystem::path path(const char* file) const { return folder_ / file; }
  const std::filesystem::path& folder() const { return folder_; }

  // submitted.json and status.json: an object whose members are of the kinds that are read of it, or null.
  nlohmann::json submitted() const;
  nlohmann::json status() const;
  // A sentence: why submitted.json tells nothing; empty: it does.
  std::string problem() const;
  std::string read_text(const char* file) const;  // empty: there is none
  // Atomic. Throws Error.
  void write(const char* file, const nlohmann::json& content) const;
  void write_text(const char* file, const std::string& text) const;

 private:
  nlohmann::json read(const char* file) const;  // null: not JSON
  std::filesystem::path folder_;
};

constexpr const char* kPlainFolder = "plain";  // in the folder of all records
// Whether its job was started without a file.
bool is_plain(const JobRecord& record);

// What is wrong with it: "it is no JSON object", "its 'at' is no whole number".
std::optional<std::string> wrong_submitted(const nlohmann::json& content);
std::optional<std::string> wrong_status(const nlohmann::json& content);

// The folder of all records of this user. Throws UsageError where the environment names none.
bool has_records_folder(const std::map<std::string, std::string>& environment);
std::filesystem::path records_folder(const std::map<std::string, std::string>& environment);
// Makes a record with a new id. Throws Error.
JobRecord make_record(const std::filesystem::path& records, const std::string& job_name);
std::vector<JobRecord> all_records(const std::filesystem::path& records);  // the newest first
// The record that a handle, an id, a name, the beginning of one of them, or a plain job's run id means, or a sentence
// why there is none.
std::variant<JobRecord, std::string> find_record(const std::filesystem::path& records, const std::string& words);

}  // namespace ddprun::launcher

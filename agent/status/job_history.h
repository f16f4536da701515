// What the job's page and top show of the past: samples of the job's status, its rounds, and marks of what happened.
// Pure, and bounded: a longer job has coarser samples, rounds of long ago are merged, and marks of old snapshots go.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace ddprun::agent {

using UnixTime = std::chrono::milliseconds;  // since 1970

struct HistorySample {
  UnixTime at{};
  std::optional<double> step = {}, steps_per_second = {}, loss = {}, useful = {};

  friend bool operator==(const HistorySample&, const HistorySample&) = default;
};

struct HistoryRounds {
  int first = 0, last = 0;  // one round, or several that were merged
  UnixTime start{};
  std::optional<UnixTime> end = {};        // empty: it runs
  std::map<std::string, int> causes = {};  // why they ended, and how many did
  bool failed = false;                     // one at least
  std::string story = {};                  // of one round, why it ended: "rank 1 was killed by SIGKILL"
  std::optional<int> rank = {};            // that failed
  std::string node = {};
  std::map<std::string, double> spent = {};  // in seconds by kind (time_account.h), as far as it is known

  friend bool operator==(const HistoryRounds&, const HistoryRounds&) = default;
};

enum class MarkKind { failure, restart, resize, snapshot, straggler, still };
struct HistoryMark {
  UnixTime at{};
  MarkKind kind = MarkKind::failure;
  std::string text = {};

  friend bool operator==(const HistoryMark&, const HistoryMark&) = default;
};

// Why a round has ended.
struct RoundEnding {
  std::string cause = {};  // as restarts are counted; empty: not known
  bool failed = false;     // else it was planned
  std::string story = {};
  std::optional<int> rank = {};
  std::string node = {};
};

class JobHistory {
 public:
  static constexpr std::size_t kSamplesMax = 512, kRoundsMax = 200, kCausesMax = 16, kMarksMax = 100;

  // A round of which no event has come is known from the next status.
  void note(const nlohmann::json& status, UnixTime now);
  // The same of this node's ranks alone: rounds and times are not in it.
  void note_own(const nlohmann::json& status, UnixTime now);
  void round_formed(int number, int world_size, UnixTime now);
  void round_ended(int number, const RoundEnding& ending, UnixTime now);
  void straggler_found(const std::string& text, UnixTime now) { mark(MarkKind::straggler, text, now); }

  const std::vector<HistorySample>& samples() const { return samples_; }
  const std::vector<HistoryRounds>& rounds() const { return rounds_; }
  const std::vector<HistoryMark>& marks() const { return marks_; }
  // The last round that a failure has ended, or several; null: none.
  const HistoryRounds* last_failed() const;
  int changes() const { return changes_; }  // of rounds and marks: how often

 private:
  void add(const HistorySample& sample);
  void add_times(const nlohmann::json& status, UnixTime at);
  void add_marks(const nlohmann::json& status, bool& stands_still, UnixTime now);
  void add_sample(const nlohmann::json& status, UnixTime now);
  void mark(MarkKind kind, const std::string& text, UnixTime now);
  void merge_old_rounds();

  std::vector<HistorySample> samples_;
  UnixTime apart_{0};  // that samples are kept; doubles with each thinning
  std::vector<HistoryRounds> rounds_;
  std::map<std::string, int> restarts_;  // by cause, in the last status
  std::vector<HistoryMark> marks_;
  std::map<std::string, double> times_;  // of the job, by kind, in the last status that told them
  std::optional<double> snapshot_step_;
  bool stands_still_ = false, own_stand_still_ = false;  // by the last status of all, and of our own ranks
  bool has_pace_ = false;
  int world_size_ = 0;   // of the last round
  int timed_round_ = 0;  // the last one of which a status has told times
  int changes_ = 0;
};

// As the page takes them (agent/http/page/page.js).
nlohmann::json to_json(const HistorySample& sample);
nlohmann::json to_json(const std::vector<HistoryRounds>& rounds);
nlohmann::json to_json(const std::vector<HistoryMark>& marks);
// Samples, marks and rounds.
nlohmann::json to_json(const JobHistory& history);
HistorySample sample_of(const nlohmann::json& status, UnixTime now);

}  // namespace ddprun::agent

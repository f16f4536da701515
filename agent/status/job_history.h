// What the job's page shows of the past: samples of the job's status, and its rounds. Pure, and bounded: a longer job
// has coarser samples, and rounds of long ago are merged.
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

  friend bool operator==(const HistoryRounds&, const HistoryRounds&) = default;
};

class JobHistory {
 public:
  static constexpr std::size_t kSamplesMax = 512, kRoundsMax = 200, kCausesMax = 16;

  // A round of which no event has come is known from the next status.
  void note(const nlohmann::json& status, UnixTime now);
  void round_formed(int number, UnixTime now);
  void round_ended(int number, const std::string& cause, UnixTime now);

  const std::vector<HistorySample>& samples() const { return samples_; }
  const std::vector<HistoryRounds>& rounds() const { return rounds_; }
  int rounds_changed() const { return rounds_changed_; }  // how often

 private:
  void add(const HistorySample& sample);
  void merge_old_rounds();

  std::vector<HistorySample> samples_;
  UnixTime apart_{0};  // that samples are kept; doubles with each thinning
  std::vector<HistoryRounds> rounds_;
  std::map<std::string, int> restarts_;  // by cause, in the last status
  int rounds_changed_ = 0;
};

// As the page takes them (agent/http/page/page.js).
nlohmann::json to_json(const HistorySample& sample);
nlohmann::json to_json(const std::vector<HistoryRounds>& rounds);
HistorySample sample_of(const nlohmann::json& status, UnixTime now);

}  // namespace ddprun::agent

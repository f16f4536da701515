// Where a job's wall time went: one duration for each kind, which add up to it exactly.
//
// Pure values. docs/events.md says what belongs to which kind.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "rendezvous/base/time.h"

namespace ddprun::rendezvous {

enum class TimeKind { productive, start, restore, save, lost_work, stop, waiting, hang };

struct TimeKindName {
  TimeKind kind;
  const char* name;   // in JSON
  const char* words;  // for people
};
constexpr std::array<TimeKindName, 8> kTimeKinds{{
    {TimeKind::productive, "productive", "training and evaluation that count"},
    {TimeKind::start, "start", "starting workers"},
    {TimeKind::restore, "restore", "data, snapshot, process group"},
    {TimeKind::save, "save", "waiting for snapshots"},
    {TimeKind::lost_work, "lost_work", "steps that were done again"},
    {TimeKind::stop, "stop", "stopping workers"},
    {TimeKind::waiting, "waiting", "waiting for nodes"},
    {TimeKind::hang, "hang", "hanging"},
}};
const char* name_of(TimeKind kind);

class TimeAccount {
 public:
  Duration& operator[](TimeKind kind) { return spent_[static_cast<std::size_t>(kind)]; }
  Duration operator[](TimeKind kind) const { return spent_[static_cast<std::size_t>(kind)]; }
  TimeAccount& operator+=(const TimeAccount& other);
  Duration total() const;
  // The share of productive time, from 0 to 1; 0 if no time has passed. Meta's "effective training time ratio",
  // https://arxiv.org/abs/2407.21783, section 3.3.4, and https://arxiv.org/abs/2410.21680.
  double ettr() const;
  // At most what is there; returns what was moved. The sum stays.
  Duration move(TimeKind from, TimeKind to, Duration most);
  friend bool operator==(const TimeAccount&, const TimeAccount&) = default;

 private:
  std::array<Duration, kTimeKinds.size()> spent_{};
};

// Of the last round in which steps were done: a later one that begins before its end does some of them again.
struct KeptSteps {
  std::uint64_t last = 0;   // the number of the last one
  std::uint64_t steps = 0;  // how many
  Duration time = {};       // that they took

  // Of a round that begins with this step: the time of those that it does again.
  Duration lost_from(std::uint64_t first) const;
  friend bool operator==(const KeptSteps&, const KeptSteps&) = default;
};

struct RoundSpent;
enum class RoundEnd : int;

// Of the rounds that are over, and of the times between them.
struct JobAccount {
  TimeAccount spent = {};
  KeptSteps kept = {};
  int rounds = 0;

  // The round took `length`. Its first step shows how much of the earlier rounds' work was lost.
  void add_round(const RoundSpent& round, Duration length, RoundEnd end);
  friend bool operator==(const JobAccount&, const JobAccount&) = default;
};

// With the round that runs, `since_formed` until now.
TimeAccount so_far(JobAccount closed, const RoundSpent& running, Duration since_formed);

}  // namespace ddprun::rendezvous

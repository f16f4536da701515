// The agent's end of a worker channel (rendezvous/channel/worker_channel.h): one page of memory shared with one worker.
//
// A worker may write anything into the page at any time. Nothing here trusts it: a record is accepted only if its check
// is right, times are clamped between the page's creation and now, and the page can neither shrink nor grow.
#pragma once
#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/process/process.h"
#include "rendezvous/base/time.h"
#include "rendezvous/channel/worker_channel.h"

namespace ddprun::agent {

// The descriptor's number in the worker. Below 64, so that the kernel needs no larger table for it; above those that
// shells and users choose.
constexpr int kChannelFd = 61;
// kChannelFd, or the highest number that the limit of open files allows; -1: it allows none.
int channel_number();

// What a worker is doing within its phase.
struct Beat {
  ddprun_beat kind = DDPRUN_BEAT_NONE;
  std::uint64_t waits = 0;      // begun in this round; 0: it may not report any
  std::string collective = {};  // while it waits: up to 8 printable ASCII characters; empty if it gave no valid name
  TimePoint at = {};            // when this beat began
  std::chrono::nanoseconds load{}, compute{}, wait{};  // spent before `at` in this round
};

// How long a worker's phases took in this round.
struct PhaseTimes {
  TimePoint attached = {};             // its program, or when it got its place
  std::optional<TimePoint> work = {};  // when training or evaluating first began
  ddprun_phase phase = DDPRUN_PHASE_UNKNOWN;
  TimePoint since = {};  // when this phase began
  // By phase, since `work`, without the current one.
  std::array<std::chrono::nanoseconds, DDPRUN_PHASE_FINISHING + 1> spent = {};
};

// What a worker has reported. All empty: it does not use the channel.
struct Progress {
  ddprun_phase phase = DDPRUN_PHASE_UNKNOWN;
  std::optional<std::uint64_t> step = {};  // the last completed one
  std::uint64_t steps_done = 0;            // since the page was created, that is in this round
  std::optional<TimePoint> at = {};        // of the last step, phase, beat or snapshot
  std::optional<std::uint64_t> snapshot_step = {};
  std::optional<TimePoint> snapshot_at = {};
  std::uint64_t snapshot_bytes = 0;  // that this rank has written for it; 0: not told
  std::optional<double> samples_per_second = {};
  std::optional<double> loss = {};                // the last training loss
  std::optional<std::uint64_t> total_steps = {};  // the number of the step that is the last one
  std::optional<Beat> beat = {};                  // empty: it has never reported one
  std::optional<TimePoint> step_at = {}, phase_at = {};
  std::optional<PhaseTimes> times = {};          // empty: it has not attached, or by an older worker_channel.h
  std::optional<std::uint64_t> first_step = {};  // of this round; empty: none, or the program does not number them
  std::optional<TimePoint> first_step_at = {};
  bool inferred = false;   // phases and beats are not the program's own: a pause between them may be anything
  bool only_seen = false;  // and they are for people: nothing is decided by them
  bool unasked = false;    // the program knows nothing of its reports: of snapshots only what a trainer tells
  std::optional<std::uint64_t> file_step = {};  // after which a file was written, which may hold anything

  bool has_reported() const { return at || times; }
};

// The lock's word with the thread id of who uses the channel; null: it has not been told.
std::uint32_t* owner_word(ddprun_channel_page& page);

class ChannelPage {
 public:
  // If the kernel refuses shared memory, the page is private and fd() is -1: the worker does without a channel.
  static ChannelPage create(TimePoint now);

  // Pass it to the worker as channel_number(), with its number in the variable DDPRUN_CHANNEL_VARIABLE.
  int fd() const { return fd_.get(); }
  // Not needed after the worker's start.
  void close_fd() { fd_.reset(); }

  Progress progress(TimePoint now);
  // The signal of a notice that came since the last call.
  std::optional<int> new_notice(TimePoint now);
  // --in-process: the worker may wait for the next round instead of ending, and does so now.
  bool may_park() const;
  bool is_parked() const;
  // Gives it a place in a round: "NAME=VALUE" of what is new in its environment. False: that is too much. Forgets what
  // was reported before.
  bool seat(const std::vector<std::string>& environment, TimePoint now);

  // Whether the worker has taken the page into use.
  bool attached() const;
  // The process that has, while it lives; 0: none, or unknown.
  pid_t owner() const;
  // At the end of this step, the same one on every rank.
  void request_save_at(std::uint64_t step);
  void request_leave_without_saving();
  // At the end of this step, and training goes on. A request to save or leave that is there stays.
  void request_snapshot_at(std::uint64_t step);

  const std::shared_ptr<ddprun_channel_page>& memory() const { return page_; }

 private:
  struct LastValue {  // the last valid value of a record
    std::optional<TimePoint> at = {};
    std::uint64_t first = 0, second = 0;
  };
  ChannelPage(std::shared_ptr<ddprun_channel_page> page, Fd fd, TimePoint made);
  TimePoint clamped(std::uint64_t time_ns, TimePoint now) const;
  void read(const ddprun_channel_record& record, LastValue& last, TimePoint now) const;
  void read_beat(TimePoint now);
  void read_times(TimePoint now);
  void read_outlook();

  std::shared_ptr<ddprun_channel_page> page_;
  Fd fd_;
  TimePoint made_;
  LastValue step_, phase_, snapshot_, file_, throughput_, notice_, first_step_;
  std::optional<Beat> beat_;  // the last valid one
  std::optional<PhaseTimes> times_;
  std::optional<double> loss_;
  std::optional<std::uint64_t> total_steps_;
};

}  // namespace ddprun::agent

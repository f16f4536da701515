// What each worker of a round is doing, and which one holds up the others.
//
// Pure. Agents tell their workers' standings while one of them does not get on; with those of all nodes the coordinator
// finds the worker that the others wait for. In DDP every rank stands still when one does: the one to blame is the one
// that does not wait in a collective, or waits in another one than the rest.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/base/time.h"
#include "rendezvous/coordination/account/collective_record.h"

namespace ddprun::rendezvous {

enum class Activity {
  start,     // before its first step
  load,      // it waits for data
  compute,   // it trains
  wait,      // it is in a collective
  save,      // it writes a snapshot
  evaluate,  // without waiting for others
  end,       // only the exit is left
  ended,     // with success
};
struct NamedActivity {
  Activity activity;
  const char* name;
};
constexpr std::array<NamedActivity, 8> kActivities = {{{Activity::start, "start"},
                                                       {Activity::load, "load"},
                                                       {Activity::compute, "compute"},
                                                       {Activity::wait, "wait"},
                                                       {Activity::save, "save"},
                                                       {Activity::evaluate, "evaluate"},
                                                       {Activity::end, "end"},
                                                       {Activity::ended, "ended"}}};
std::string name_of(Activity activity);
std::optional<Activity> activity(std::string_view name);

struct Standing {
  int rank = 0;
  Activity activity = Activity::start;
  std::string collective = {};  // that it waits in; at most kCollectiveMax bytes
  std::optional<std::uint64_t> step = {};
  Duration age = {};      // since it last reported anything
  bool overdue = false;   // longer than this activity may take
  bool stopped = false;   // by a signal such as SIGSTOP
  bool paused = false;    // on purpose: a debugger has stopped it, or the job was suspended at its terminal
  bool traced = false;    // by a debugger: it may be slow on purpose
  std::string held = {};  // the function in which the kernel keeps it, if no signal could end that
  bool works = false;     // it reports nothing, and shows signs of life all the same
  std::optional<CollectiveRecord> record = {};  // empty: it has none, or it could not be read

  friend bool operator==(const Standing&, const Standing&) = default;
};
constexpr std::size_t kCollectiveMax = 64;

// "has computed for 2.1 s, after step 41"
std::string in_words(const Standing& standing);

struct HangFinding {
  int rank = 0;
  // What it does, since when, and who waits for it: "has computed for 2.1 s, after step 41; rank 0 waits for it in
  // grads".
  std::string text = {};
  bool of_all = false;  // all wait, and none is to blame: this one stands for all
};

// If every rank waits in the same collective, nobody is to blame before all have waited for so long: a network may be
// interrupted that long without harm.
constexpr std::chrono::seconds kAllWaitLimit{60};

// If nobody waits, all may be in a long operation that is new to them: then a worker is not to blame before it has
// been silent for so long, unless a signal stopped it or the kernel holds it.
constexpr std::chrono::seconds kNobodyWaitsLimit{60};

// `standings`: of every worker of the round. Empty: none is overdue, or it may still be what it should be: one saves
// and is not overdue, or a debugger has stopped one.
std::optional<HangFinding> find_hang(const std::vector<Standing>& standings);

}  // namespace ddprun::rendezvous

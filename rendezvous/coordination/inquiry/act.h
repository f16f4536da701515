// What a user may do to a running job (`ddprun ctl`): a request to the coordinator, which carries it out or says why
// not.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "rendezvous/coordination/inquiry/fault.h"

namespace ddprun::rendezvous {

enum class ActKind {
  restart,         // a new round, with the same nodes; the workers save first
  stop,            // as by SIGTERM: the workers save, and the job ends
  drain,           // the job goes on without a node, whose place a spare takes
  admit,           // a drained node may take part again
  resize,          // other numbers of nodes
  add_workers,     // a node, or each, has so many workers more
  remove_workers,  // or fewer
  pause,           // the workers are stopped by SIGSTOP, and nobody is late
  resume,
  snapshot,  // the workers save, and go on
  fault,     // a worker or its node suffers a fault
};
struct NamedAct {
  ActKind kind;
  const char* name;
};
constexpr NamedAct kActs[] = {{ActKind::restart, "restart"},
                              {ActKind::stop, "stop"},
                              {ActKind::drain, "drain"},
                              {ActKind::admit, "admit"},
                              {ActKind::resize, "resize"},
                              {ActKind::pause, "pause"},
                              {ActKind::resume, "resume"},
                              {ActKind::snapshot, "snapshot"},
                              {ActKind::fault, "fault"},
                              {ActKind::add_workers, "add-workers"},
                              {ActKind::remove_workers, "remove-workers"}};
constexpr bool changes_workers(ActKind kind) { return kind == ActKind::add_workers || kind == ActKind::remove_workers; }
const char* name_of(ActKind kind);
std::optional<ActKind> act_named(std::string_view name);

struct Act {
  ActKind kind = ActKind::restart;
  // A node's name, or its group rank: of drain, admit, add_workers and remove_workers, of the latter two empty for all.
  std::string node = {};
  int nodes_min = 0, nodes_max = 0;  // resize
  std::string by = {};               // who: "alice on login1"
  std::optional<Fault> fault = {};
  int workers = 0;  // add_workers, remove_workers: how many

  friend bool operator==(const Act&, const Act&) = default;
};
constexpr std::size_t kActTextMax = 256;  // of node and by
struct ActResult {
  bool done = false;
  std::string text = {};  // what follows, or why not
};

// "resize 2:4", "drain node7"
std::string in_words(const Act& act);
// "stop rank 3 for 2.5 s"
std::string in_words(const Fault& fault);

}  // namespace ddprun::rendezvous

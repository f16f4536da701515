// Which machines no round should have: those on which workers failed too often, or of which a rule says so.
//
// A value, held only by the coordinator. A machine is known by its name, so that an agent that is started again there
// is excluded, too. It may take part again after a while.
#pragma once
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/base/time.h"
#include "rendezvous/coordination/round/round.h"

namespace ddprun::rendezvous {

struct ExclusionPolicy {
  int failures = 3;  // of workers there within this time; 0: only rules exclude
  Duration within = std::chrono::hours(1);
  Duration lasts = std::chrono::hours(1);
};

class ExcludedHosts {
 public:
  explicit ExcludedHosts(const ExclusionPolicy& policy) : policy_(policy) {}

  // A worker failed there. True: the machine is excluded from now on.
  bool note_failure(const NodeOffer& there, TimePoint now);
  // `lasts` empty: as the policy says.
  void exclude(const NodeOffer& host, std::string why, TimePoint now, std::optional<Duration> lasts = {});
  void admit(const NodeOffer& host) { excluded_.erase(key_of(host)); }
  // Forgets those whose time is over, and returns whether there were any.
  bool forget_old(TimePoint now);
  bool empty() const { return excluded_.empty(); }
  // Why it is excluded; null: it is not.
  const std::string* why(const NodeOffer& host) const;
  // How long yet.
  Duration left(const NodeOffer& host, TimePoint now) const;
  // When the next one may take part again.
  std::optional<TimePoint> next_end() const;

  std::vector<ExcludedHost> record(TimePoint now) const;
  // `age`: of the record.
  void restore(const std::vector<ExcludedHost>& record, Duration age, TimePoint now);

 private:
  // Its name, else its address: the coordinator's own agent has another address on other machines.
  using Key = std::string;
  struct Excluded {
    std::string name, host;
    std::string why;
    TimePoint until;
  };
  static Key key_of(const NodeOffer& host) { return host.name.empty() ? host.host : host.name; }

  ExclusionPolicy policy_;
  std::map<Key, std::deque<TimePoint>> failures_;
  std::map<Key, Excluded> excluded_;
};

}  // namespace ddprun::rendezvous

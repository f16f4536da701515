// How long a worker may stand still in each activity, as --hang-timeout says it.
#pragma once
#include <map>
#include <optional>

#include "rendezvous/base/time.h"
#include "rendezvous/coordination/account/standing.h"

namespace ddprun::agent {

struct HangLimit {
  bool off = false;                   // nobody is ended; who is late is still found and said
  std::optional<Duration> time = {};  // empty, and not off: learned from the job

  friend bool operator==(const HangLimit&, const HangLimit&) = default;
};

struct HangLimits {
  HangLimit all = {};  // of activities that are not named
  std::map<rendezvous::Activity, HangLimit> named = {};

  const HangLimit& of(rendezvous::Activity activity) const {
    const auto own = named.find(activity);
    return own == named.end() ? all : own->second;
  }
  friend bool operator==(const HangLimits&, const HangLimits&) = default;
};

}  // namespace ddprun::agent

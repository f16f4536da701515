// Drops what ddprun says on one host and has just said on another one: that the job stops, or restarts. Pure.
#pragma once
#include <map>
#include <string>
#include <string_view>

#include "rendezvous/base/time.h"

namespace ddprun::launcher {

class RepeatedLines {
 public:
  // `lines`: whole lines of a host's stderr. Those of workers stay, and so does what the same host says twice.
  std::string without_repeated(int host, std::string_view lines, TimePoint now);

 private:
  struct Said {
    int host = 0;
    TimePoint at = {};
  };
  void forget_old(TimePoint now);

  std::map<std::string, Said, std::less<>> said_;
};

}  // namespace ddprun::launcher

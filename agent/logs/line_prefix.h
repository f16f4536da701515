// What stands before a worker's lines on the console: a template such as "[${role_name}${local_rank}]:", filled in.
//
// Pure. ${rank}, ${local_rank}, ${host}, ${role} or ${role_name}, and ${time}, the local time to the millisecond; the
// braces may be left out, $$ is a $, and whatever else stands there stays as it is (Python's string.Template, by which
// torchrun fills its own).
#pragma once
#include <chrono>
#include <string>
#include <vector>

namespace ddprun::agent {

struct PrefixNames {
  int rank = 0, local_rank = 0;
  std::string host = {}, role = {};
};

class LinePrefix {
 public:
  LinePrefix() = default;  // none
  LinePrefix(const std::string& pattern, const PrefixNames& names);
  // The same in the rank's colour.
  LinePrefix coloured(int rank) const;
  // Valid until the next call. `now` counts only where ${time} stands in the template.
  const std::string& text(std::chrono::system_clock::time_point now);
  bool empty() const { return parts_.size() == 1 && parts_[0].empty(); }

 private:
  std::vector<std::string> parts_{""};  // the time stands between each two
  std::string filled_;
};

}  // namespace ddprun::agent

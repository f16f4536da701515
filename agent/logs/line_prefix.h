// The prefix of a worker's lines on the console: a template such as "[${role_name}${local_rank}]:", filled in.
//
// Pure. ${rank}, ${local_rank}, ${host}, ${role} or ${role_name}, and ${time}, the local time to the millisecond; the
// braces may be left out, $$ is a $, and any other text stays unchanged (the rules of Python's string.Template, which
// torchrun uses for its own).
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
  // The same prefix in the rank's colour.
  LinePrefix coloured(int rank) const;
  // Valid until the next call. `now` is used only if ${time} is in the template.
  const std::string& text(std::chrono::system_clock::time_point now);
  bool empty() const { return parts_.size() == 1 && parts_[0].empty(); }

 private:
  std::vector<std::string> parts_{""};  // the time goes between each two
  std::string filled_;
};

}  // namespace ddprun::agent

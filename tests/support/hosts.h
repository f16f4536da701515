// Test hosts on this machine: network namespaces made by scripts/hosts.sh, which also names their addresses.
//
// They belong to this object and are gone with it; those of a process that crashed go when the next one makes its own.
// Throws where a command of the script fails.
#pragma once

#include <string>
#include <vector>

namespace ddprun::test {

// Whether this machine lets us make hosts; where not, says "skipped: ...", which ctest understands.
bool hosts_or_skip();

class Hosts {
 public:
  explicit Hosts(int count);
  ~Hosts();
  Hosts(const Hosts&) = delete;
  Hosts& operator=(const Hosts&) = delete;

  int count() const { return count_; }
  static std::string name(int host) { return "host" + std::to_string(host); }
  static std::string address(int host) { return "10.99.0.1" + std::to_string(host); }
  static std::string address6(int host) { return "fd99::1" + std::to_string(host); }

  // The words that run a command there; its process id is that of the first word.
  std::vector<std::string> on(int host, const std::vector<std::string>& command) const;
  std::vector<std::string> on_switch(const std::vector<std::string>& command) const;
  // Nothing reaches the host or leaves it, and no connection is closed by that.
  void cut(int host) const;
  // As cut, but these still reach each other.
  void part(const std::vector<int>& hosts) const;
  void mend(const std::vector<int>& hosts) const;

 private:
  std::string set_;
  int count_;
};

}  // namespace ddprun::test

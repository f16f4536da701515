// Test hosts on this machine: network namespaces made by scripts/hosts.sh, which also names their addresses.
//
// The destructor removes them; those of a crashed process are removed when the next one makes its own. Throws if a
// command of the script fails.
#pragma once

#include <string>
#include <vector>

namespace ddprun::test {

// Whether this machine allows us to make hosts; if not, prints "skipped: ...", which ctest understands.
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

  // The arguments that run a command there; its process id is that of the first one.
  std::vector<std::string> on(int host, const std::vector<std::string>& command) const;
  std::vector<std::string> on_switch(const std::vector<std::string>& command) const;
  // Drops all packets to and from the host; closes no connection.
  void cut(int host) const;
  // Like cut, but these hosts still reach each other.
  void part(const std::vector<int>& hosts) const;
  void mend(const std::vector<int>& hosts) const;
  // Drops all packets between the host and each of the others; closes no connection.
  void apart(int host, const std::vector<int>& others) const;
  void together(int host, const std::vector<int>& others) const;

 private:
  std::string set_;
  int count_;
};

}  // namespace ddprun::test

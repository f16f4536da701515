// Test hosts (support/hosts.h) on which sshd runs: each with the same keys, its own network, and the same files.
//
// Nothing of /etc/ssh or of the user's own keys is used or changed: sshd and ssh have their configuration, host key and
// login key in a temporary folder.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/command.h"
#include "tests/support/hosts.h"

namespace ddprun::test {

// Whether this machine has sshd and allows test hosts; if not, prints "skipped: ...".
bool ssh_hosts_or_skip();

class SshHosts {
 public:
  explicit SshHosts(int count);

  // Host `from` sees `file` at the path `at`, and so does what sshd starts there; before serve().
  void put(int host, const std::filesystem::path& file, const std::filesystem::path& at);
  void serve(int host);
  void serve_all();
  void stop_serving(int host);

  // The value of --ssh.
  std::string ssh() const { return "ssh -F " + (folder / "ssh_config").string(); }
  // Starts ddprun on a host, as its user would.
  std::unique_ptr<Command> start(int host, const std::vector<std::string>& words, CommandOptions options = {}) const;
  // Processes of a job on that host, without sshd's: their command lines.
  std::vector<std::string> left_on(int host) const;
  // Whether no process of a job is left on any host.
  bool all_gone(std::chrono::milliseconds limit) const;

  Hosts hosts;
  TempFolder folder;

 private:
  struct Place {
    std::filesystem::path file, at;
  };
  std::vector<std::unique_ptr<Command>> servers_;
  std::vector<std::vector<Place>> places_;
};

}  // namespace ddprun::test

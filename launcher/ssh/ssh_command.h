// The command that starts ddprun on another host, and what a failed one means. Pure.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "launcher/settings/values.h"
#include "rendezvous/coordination/round/round.h"

namespace ddprun::launcher {

inline constexpr const char* kNodeCommand = "ssh-node";  // the hidden subcommand of ddprun

// "ssh -p 2222 -i 'my key'" in words, by a shell's rules of quoting; nothing is expanded.
settings::Read<std::vector<std::string>> read_command_words(const std::string& text);

// Not interactive, with the user's own configuration of ssh; options in `ssh` go before ours. `ddprun` is the path
// tried first on the host, then ddprun in its PATH.
std::vector<std::string> ssh_command(const std::vector<std::string>& ssh, const std::string& host,
                                     const std::string& ddprun);
// Without host and command: for rsync's --rsh.
std::vector<std::string> with_ssh_options(const std::vector<std::string>& ssh);
// The same for a shell.
std::string pasted(const std::vector<std::string>& command);

// "Try: ssh -p 2222 -o BatchMode=yes HOST true": the user's own command, to be pasted.
std::string try_reaching(const std::vector<std::string>& ssh, const std::string& host);

// Without ssh: on the machine of the one who asks.
bool is_this_machine(const std::string& host, const std::string& own_name);

// What somebody has to know of a command that ended before ddprun answered from the host.
struct SshEnd {
  std::vector<std::string> ssh = {};  // --ssh
  std::string host = {};
  std::string ddprun = {};   // the path tried first
  std::string version = {};  // our own
  rendezvous::ExitStatus status = {};
  std::vector<std::string> last_words = {};  // of its stderr, oldest first
};
std::string ssh_failure(const SshEnd& end);
std::string not_answering(const std::vector<std::string>& ssh, const std::string& host);  // of one that was given up
// Why a connection that worked has ended.
std::string connection_loss(const rendezvous::ExitStatus& status, const std::vector<std::string>& last_words);

}  // namespace ddprun::launcher

#include "launcher/ssh/ssh_command.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "agent/process/exit_status.h"
#include "rendezvous/base/spelling.h"

namespace ddprun::launcher {
namespace {

constexpr int kSshFailed = 255;  // ssh's own exit code for any failure of its own
constexpr int kNotFound = 127;   // a shell's
constexpr std::size_t kHintWords = 3;

// After the user's words, as the first value counts for ssh. No password is asked for; no connection is shared by us
// that others would use, and none of the user's forwardings fails. The time is for a machine whose sshd is stuck: one
// that does not answer at all is given up earlier (kConnectLimit of node_link.h).
constexpr const char* kSshOptions[] = {"-T",
                                       "-oBatchMode=yes",
                                       "-oConnectTimeout=15",
                                       "-oControlMaster=no",
                                       "-oClearAllForwardings=yes",
                                       "-oRemoteCommand=none"};

// ddprun at `ddprun`, else in PATH, by a shell of POSIX, whatever the user's login shell is.
std::string remote_command(const std::string& ddprun) {
  const std::string script =
      std::string("test -x \"$0\" && exec \"$0\" ") + kNodeCommand + "; exec ddprun " + kNodeCommand;
  return "exec sh -c " + shell_word(script) + " " + shell_word(ddprun);
}

// Without ssh's line about the connection that it closed.
std::string last_said(const std::vector<std::string>& lines) {
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    std::string text = line->substr(0, line->find_last_not_of(" \r\t") + 1);
    if (!text.empty()) return text.ends_with('.') ? text.substr(0, text.size() - 1) : text;
  }
  return {};
}

std::string cannot_reach(const std::vector<std::string>& ssh, const std::string& host, const std::string& why) {
  return "cannot reach " + host + " by ssh: " + why + ". " + try_reaching(ssh, host);
}

std::string said(const SshEnd& end) {
  const std::string last = last_said(end.last_words);
  return last.empty() ? "it " + agent::in_words(end.status) + " and said nothing" : last;
}

}  // namespace

settings::Read<std::vector<std::string>> read_command_words(const std::string& text) {
  std::vector<std::string> words;
  bool in_word = false;
  char quote = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (!quote && std::isspace(static_cast<unsigned char>(c))) {
      in_word = false;
      continue;
    }
    if (!in_word) words.emplace_back();
    in_word = true;
    if (c == quote && quote)
      quote = 0;
    else if (!quote && (c == '\'' || c == '"'))
      quote = c;
    else if (c == '\\' && quote != '\'' && i + 1 < text.size())
      words.back() += text[++i];
    else
      words.back() += c;
  }
  if (quote) return settings::Wrong{std::string("it has no second ") + quote};
  if (words.empty() || words.front().empty()) return settings::Wrong{"it takes a command, such as \"ssh -p 2222\""};
  return words;
}

std::vector<std::string> ssh_command(const std::vector<std::string>& ssh, const std::string& host,
                                     const std::string& ddprun) {
  std::vector<std::string> words = with_ssh_options(ssh);
  words.insert(words.end(), {"--", host, remote_command(ddprun)});
  return words;
}

std::vector<std::string> with_ssh_options(const std::vector<std::string>& ssh) {
  std::vector<std::string> words = ssh;
  words.insert(words.end(), std::begin(kSshOptions), std::end(kSshOptions));
  return words;
}

std::string pasted(const std::vector<std::string>& command) {
  std::string out;
  for (const std::string& word : command) out += (out.empty() ? "" : " ") + shell_word(word);
  return out;
}

std::string try_reaching(const std::vector<std::string>& ssh, const std::string& host) {
  std::vector<std::string> words = ssh;
  words.insert(words.end(), {"-o", "BatchMode=yes", host, "true"});
  return "Try: " + pasted(words);
}

bool is_this_machine(const std::string& host, const std::string& own_name) {
  return host == "localhost" || host == "127.0.0.1" || host == "::1" || host == own_name;
}

std::string ssh_failure(const SshEnd& end) {
  if (end.status.start_error)
    return "cannot run " + end.ssh.front() + ": it " + agent::in_words(end.status) +
           (end.ssh.front() == "ssh" ? ". Install openssh-client, or name the command by --ssh."
                                     : ". --ssh names the command that reaches the hosts.");
  if (end.status.code == kNotFound)
    return "there is no ddprun on " + end.host + ": neither " + end.ddprun + " nor one in its PATH. Install ddprun " +
           end.version + " there, best at the same path.";
  if (end.status.code == kSshFailed) return cannot_reach(end.ssh, end.host, said(end));
  return "ddprun does not start on " + end.host + ": " + said(end) + ". Install ddprun " + end.version +
         " there, best at the same path.";
}

std::string not_answering(const std::vector<std::string>& ssh, const std::string& host) {
  return cannot_reach(ssh, host, "it does not answer");
}

std::string connection_loss(const rendezvous::ExitStatus& status, const std::vector<std::string>& last_words) {
  const std::string last = status.code == kSshFailed ? last_said(last_words) : "";
  return last.empty() ? "ssh " + agent::in_words(status) : last;
}

}  // namespace ddprun::launcher

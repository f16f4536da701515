#include "tests/e2e/ssh_hosts.h"

#include "tests/e2e/programs.h"
#include "tests/support/test.h"

namespace ddprun::test {
namespace {

constexpr const char* kSshd = "/usr/sbin/sshd";  // wants to be started by its whole path
constexpr std::chrono::seconds kServerLimit{30};

void must_run(const std::vector<std::string>& command) {
  const Ended ended = run(command, kServerLimit);
  if (ended.code != 0) throw std::runtime_error(command.front() + " failed: " + ended.out + ended.err);
}

std::string server_config(const TempFolder& folder) {
  return "Port 2222\nHostKey " + (folder / "host_key").string() + "\nAuthorizedKeysFile " +
         (folder / "user_key.pub").string() +
         "\nStrictModes no\nUsePAM no\nUseDNS no\nPidFile none\nPermitRootLogin yes\nPasswordAuthentication no\n"
         "KbdInteractiveAuthentication no\nMaxStartups 200\nMaxSessions 200\n";
}

std::string client_config(const TempFolder& folder) {
  return "Host *\n  Port 2222\n  User root\n  IdentityFile " + (folder / "user_key").string() +
         "\n  IdentitiesOnly yes\n  StrictHostKeyChecking yes\n  GlobalKnownHostsFile /dev/null\n  "
         "UserKnownHostsFile " +
         (folder / "known_hosts").string() + "\n";
}

// Every process in the caller's network namespace but sshd, and this script with its parents.
constexpr const char* kListProcesses = R"sh(
own=$(readlink /proc/self/ns/net)
for process in /proc/[0-9]*; do
  [ "$(readlink "$process/ns/net" 2>/dev/null)" = "$own" ] || continue
  read -r name <"$process/comm" || continue
  case $name in sshd|sshd-session|sshd-auth|readlink) continue ;
; esac
  [ "${process#/proc/}" != $$ ] || continue
  line=$(tr '\0' ' ' <"$process/cmdline" 2>/dev/null)
  [ -z "$line" ] || printf '%s\n' "${process#/proc/} $name: $line"
done)sh";

}  // namespace

bool ssh_hosts_or_skip() {
  if (!hosts_or_skip()) return false;
  static const bool there =
      std::filesystem::exists(kSshd) && run({"sh", "-c", "command -v ssh ssh-keygen"}, kServerLimit).code == 0;
  if (!there) WARN("skipped: no sshd here; scripts/setup.sh --test installs it");
  return there;
}

SshHosts::SshHosts(int count)
    : hosts(count), servers_(static_cast<std::size_t>(count)), places_(static_cast<std::size_t>(count)) {
  for (const char* key : {"host_key", "user_key"})
    must_run({"ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", (folder / key).string()});
  folder.write("known_hosts", "* " + read_file(folder / "host_key.pub"));
  folder.write("sshd_config", server_config(folder));
  folder.write("ssh_config", client_config(folder));
}

void SshHosts::put(int host, const std::filesystem::path& file, const std::filesystem::path& at) {
  places_[static_cast<std::size_t>(host)].push_back({file, at});
}

void SshHosts::serve(int host) {
  std::string script = "mkdir -p /run/sshd";
  for (const Place& place : places_[static_cast<std::size_t>(host)])
    script += " && mount --bind " + place.file.string() + " " + place.at.string();
  script += std::string(" && exec ") + kSshd + " -D -e -f " + (folder / "sshd_config").string();
  auto& server = servers_[static_cast<std::size_t>(host)];
  server = std::make_unique<Command>(hosts.on(host, {"unshare", "--mount", "sh", "-c", script}));
  server->wait_for_output("Server listening on 0.0.0.0", kServerLimit);
}

void SshHosts::serve_all() {
  for (int host = 0; host < hosts.count(); ++host) serve(host);
}

void SshHosts::stop_serving(int host) { servers_[static_cast<std::size_t>(host)].reset(); }

std::unique_ptr<Command> SshHosts::start(int host, const std::vector<std::string>& words,
                                         CommandOptions options) const {
  if (options.cwd.empty()) options.cwd = folder.path();
  return std::make_unique<Command>(hosts.on(host, joined({{kDdprun, "--ssh", ssh()}, words})), std::move(options));
}

std::vector<std::string> SshHosts::left_on(int host) const {
  return lines_of(run(hosts.on(host, {"sh", "-c", kListProcesses}), kServerLimit).out);
}

bool SshHosts::all_gone(std::chrono::milliseconds limit) const {
  std::vector<std::string> left;
  const bool gone = eventually(
      [&] {
        left.clear();
        for (int host = 0; host < hosts.count(); ++host)
          for (const std::string& one : left_on(host)) left.push_back(Hosts::name(host) + ": " + one);
        return left.empty();
      },
      limit);
  for (const std::string& one : left) WARN("still there: " + one);
  return gone;
}

}  // namespace ddprun::test

// A real cluster of etcd, on loopback or on test hosts, in a folder of its own. Its members end with it, or with the
// test.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "tests/support/command.h"
#include "tests/support/hosts.h"

namespace ddprun::test {

class EtcdCluster {
 public:
  // `options`: further ones of every member. Waits until it answers.
  explicit EtcdCluster(int members = 1, const std::vector<std::string>& options = {},
                       const std::string& scheme = "http");
  // A member on each of these hosts, which outlive it.
  EtcdCluster(const Hosts& hosts, const std::vector<int>& on);

  const std::vector<std::string>& members() const { return members_; }  // "127.0.0.1:2379"
  void start(int member);                                               // again, with what it had
  void kill(int member, int signal = 9);                                // also SIGSTOP and SIGCONT
  int leader();                                                         // -1: there is none
  // With the password "secret" and a right to the keys under `prefix`. Others have none from then on; ctl() has all.
  void add_user(const std::string& user, const std::string& prefix);
  // etcdctl's output, at all members; of test hosts, from the first one's.
  std::string ctl(std::vector<std::string> words);
  std::vector<std::string> ctl_options = {};  // of each call: a user, certificates

 private:
  struct Place {
    std::string client, peer;  // "127.0.0.1:2379"
  };
  void start_all(const std::vector<Place>& places, const std::vector<std::string>& options);
  std::vector<std::string> at(std::size_t member, const std::vector<std::string>& command) const;

  const TempFolder folder_;
  const std::string scheme_;
  const Hosts* hosts_ = nullptr;  // null: loopback
  std::vector<int> on_;           // of each member: its host
  std::vector<std::string> members_;
  std::vector<std::vector<std::string>> commands_;
  std::vector<std::unique_ptr<Command>> running_;
};

// Whether this machine has etcd and etcdctl; says that the test is skipped if not.
bool has_etcd();

}  // namespace ddprun::test

#include "tests/support/etcd_cluster.h"

#include <unistd.h>

#include <csignal>
#include <stdexcept>

#include "tests/support/catch.h"
#include "tests/support/free_port.h"

namespace ddprun::test {
namespace {

constexpr std::chrono::seconds kEtcdLimit{60};

}  // namespace

EtcdCluster::EtcdCluster(int members, const std::vector<std::string>& options, const std::string& scheme)
    : scheme_(scheme) {
  std::vector<std::string> peers;
  std::string all;
  for (int i = 0; i < members; ++i) {
    members_.push_back("127.0.0.1:" + std::to_string(free_port()));
    peers.push_back("http://127.0.0.1:" + std::to_string(free_port()));
    all += (i ? ",m" : "m") + std::to_string(i) + "=" + peers.back();
  }
  for (int i = 0; i < members; ++i) {
    const std::string url = scheme + "://" + members_[i], name = "m" + std::to_string(i);
    commands_.push_back({"etcd",
                         "--name",
                         name,
                         "--data-dir",
                         folder_ / name,
                         "--listen-client-urls",
                         url,
                         "--advertise-client-urls",
                         url,
                         "--listen-peer-urls",
                         peers[i],
                         "--initial-advertise-peer-urls",
                         peers[i],
                         "--initial-cluster",
                         all,
                         "--log-level",
                         "error",
                         "--heartbeat-interval",
                         "50",
                         "--election-timeout",
                         "500"});
    commands_.back().insert(commands_.back().end(), options.begin(), options.end());
    running_.push_back(std::make_unique<Command>(commands_.back()));
  }
}

void EtcdCluster::start(int member) { running_.at(member) = std::make_unique<Command>(commands_.at(member)); }

void EtcdCluster::kill(int member, int signal) {
  running_.at(member)->kill(signal);
  if (signal == SIGKILL) running_.at(member)->wait_exit(kEtcdLimit);
}

std::string EtcdCluster::ctl(std::vector<std::string> words) {
  std::string all;
  for (const std::string& member : members_) all += (all.empty() ? "" : ",") + scheme_ + "://" + member;
  words.insert(words.begin(), ctl_options.begin(), ctl_options.end());
  words.insert(words.begin(), {"etcdctl", "--endpoints", all, "--command-timeout", "20s"});
  const Ended ended = run(std::move(words), kEtcdLimit, {.env = {{"ETCDCTL_API", "3"}}});
  if (ended.code != 0) throw std::runtime_error("etcdctl: " + ended.err);
  return ended.out;
}

int EtcdCluster::leader() {
  for (std::size_t i = 0; i < members_.size(); ++i) {
    std::vector<std::string> words = {"etcdctl", "--endpoints", scheme_ + "://" + members_[i], "endpoint", "status"};
    words.insert(words.end(), ctl_options.begin(), ctl_options.end());
    // "127.0.0.1:2379, ID, 3.4.23, 20 kB, true, ..."
    const Ended ended = run(words, kEtcdLimit, {.env = {{"ETCDCTL_API", "3"}}});
    if (ended.out.find("B, true,") != std::string::npos) return static_cast<int>(i);
  }
  return -1;
}

bool has_etcd() {
  const bool there = access("/usr/bin/etcd", X_OK) == 0 && access("/usr/bin/etcdctl", X_OK) == 0;
  if (!there) WARN("skipped: no etcd here (scripts/setup.sh --test)");
  return there;
}

}  // namespace ddprun::test

#include "tests/support/etcd_cluster.h"

#include <unistd.h>

#include <csignal>
#include <stdexcept>

#include "tests/support/catch.h"
#include "tests/support/free_port.h"

namespace ddprun::test {
namespace {

constexpr std::chrono::seconds kEtcdLimit{60};

bool has_stopped(pid_t pid) {
  for (const auto& thread : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task")) {
    const std::string stat = read_file(thread.path() / "stat");  // "PID (NAME) STATE ..."
    if (stat.find(") T ") == std::string::npos) return false;
  }
  return true;
}

}  // namespace

EtcdCluster::EtcdCluster(int members, const std::vector<std::string>& options, const std::string& scheme)
    : scheme_(scheme) {
  std::vector<Place> places;
  const auto free_place = [] { return "127.0.0.1:" + std::to_string(free_port()); };
  for (int i = 0; i < members; ++i) places.push_back({free_place(), free_place()});
  start_all(places, options);
}

EtcdCluster::EtcdCluster(const Hosts& hosts, const std::vector<int>& on) : scheme_("http"), hosts_(&hosts), on_(on) {
  std::vector<Place> places;
  for (const int host : on) places.push_back({Hosts::address(host) + ":2379", Hosts::address(host) + ":2380"});
  start_all(places, {});
}

void EtcdCluster::start_all(const std::vector<Place>& places, const std::vector<std::string>& options) {
  std::string all;
  for (std::size_t i = 0; i < places.size(); ++i) {
    members_.push_back(places[i].client);
    all += (i ? ",m" : "m") + std::to_string(i) + "=http://" + places[i].peer;
  }
  for (std::size_t i = 0; i < places.size(); ++i) {
    const std::string client = scheme_ + "://" + places[i].client, peer = "http://" + places[i].peer;
    const std::string name = "m" + std::to_string(i);
    std::vector<std::string> command = {"etcd",
                                        "--name",
                                        name,
                                        "--data-dir",
                                        folder_ / name,
                                        "--listen-client-urls",
                                        client,
                                        "--advertise-client-urls",
                                        client,
                                        "--listen-peer-urls",
                                        peer,
                                        "--initial-advertise-peer-urls",
                                        peer,
                                        "--initial-cluster",
                                        all,
                                        "--log-level",
                                        "error",
                                        "--heartbeat-interval",
                                        "50",
                                        "--election-timeout",
                                        "500"};
    command.insert(command.end(), options.begin(), options.end());
    commands_.push_back(at(i, command));
    running_.push_back(std::make_unique<Command>(commands_.back()));
  }
}

std::vector<std::string> EtcdCluster::at(std::size_t member, const std::vector<std::string>& command) const {
  return hosts_ ? hosts_->on(on_[member], command) : command;
}

void EtcdCluster::start(int member) { running_.at(member) = std::make_unique<Command>(commands_.at(member)); }

void EtcdCluster::kill(int member, int signal) {
  running_.at(member)->kill(signal);
  if (signal == SIGKILL) running_.at(member)->wait_exit(kEtcdLimit);
  if (signal == SIGSTOP) eventually([&] { return has_stopped(running_.at(member)->pid()); }, kEtcdLimit);
}

std::string EtcdCluster::ctl(std::vector<std::string> words) {
  std::string all;
  for (const std::string& member : members_) all += (all.empty() ? "" : ",") + scheme_ + "://" + member;
  words.insert(words.begin(), ctl_options.begin(), ctl_options.end());
  words.insert(words.begin(), {"etcdctl", "--endpoints", all, "--command-timeout", "20s"});
  const Ended ended = run(at(0, words), kEtcdLimit, {.env = {{"ETCDCTL_API", "3"}}});
  if (ended.code != 0) throw std::runtime_error("etcdctl: " + ended.err);
  return ended.out;
}

void EtcdCluster::add_user(const std::string& user, const std::string& prefix) {
  for (const auto& words :
       std::vector<std::vector<std::string>>{{"user", "add", "root:root"},
                                             {"role", "add", "root"},
                                             {"user", "grant-role", "root", "root"},
                                             {"role", "add", user},
                                             {"role", "grant-permission", user, "--prefix=true", "readwrite", prefix},
                                             {"user", "add", user + ":secret"},
                                             {"user", "grant-role", user, user},
                                             {"auth", "enable"}})
    ctl(words);
  ctl_options = {"--user=root:root"};
}

int EtcdCluster::leader() {
  for (std::size_t i = 0; i < members_.size(); ++i) {
    std::vector<std::string> words = {"etcdctl", "--endpoints", scheme_ + "://" + members_[i], "endpoint", "status"};
    words.insert(words.end(), ctl_options.begin(), ctl_options.end());
    // "127.0.0.1:2379, ID, 3.4.23, 20 kB, true, ..."
    const Ended ended = run(at(i, words), kEtcdLimit, {.env = {{"ETCDCTL_API", "3"}}});
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

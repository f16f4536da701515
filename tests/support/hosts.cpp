#include "tests/support/hosts.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <stdexcept>

#include "tests/support/catch.h"
#include "tests/support/command.h"
#include "tests/support/places.h"

namespace ddprun::test {
namespace {

const std::string kScript = source_folder() + "/scripts/hosts.sh";
constexpr std::chrono::seconds kScriptLimit{30};

void script(const std::vector<std::string>& arguments) {
  std::vector<std::string> argv{kScript};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  const Ended ended = run(argv, kScriptLimit);
  if (ended.code != 0) throw std::runtime_error("scripts/hosts.sh " + arguments.front() + " failed: " + ended.err);
}

std::string new_set() {
  static std::atomic<int> sets{0};
  return std::to_string(getpid()) + "-" + std::to_string(++sets);
}

std::vector<std::string> operator+(std::vector<std::string> first, const std::vector<std::string>& then) {
  first.insert(first.end(), then.begin(), then.end());
  return first;
}

std::vector<std::string> numbers(const std::vector<int>& hosts) {
  std::vector<std::string> arguments;
  for (const int host : hosts) arguments.push_back(std::to_string(host));
  return arguments;
}

}  // namespace

bool hosts_or_skip() {
  static const bool possible =
      geteuid() == 0 && run({"unshare", "--net", "--uts", "--mount", "true"}, kScriptLimit).code == 0;
  if (!possible) WARN("skipped: network namespaces need root, and a machine that allows them");
  return possible;
}

Hosts::Hosts(int count) : set_(new_set()), count_(count) { script({"up", set_, std::to_string(count)}); }

Hosts::~Hosts() {
  try {
    script({"down", set_});
  } catch (const std::exception&) {  // the next process that makes hosts tries again
  }
}

std::vector<std::string> Hosts::on(int host, const std::vector<std::string>& command) const {
  return std::vector<std::string>{kScript, "exec", set_, std::to_string(host)} + command;
}

std::vector<std::string> Hosts::on_switch(const std::vector<std::string>& command) const {
  return std::vector<std::string>{kScript, "switch", set_} + command;
}

void Hosts::cut(int host) const { script({"cut", set_, std::to_string(host)}); }
void Hosts::part(const std::vector<int>& hosts) const {
  script(std::vector<std::string>{"part", set_} + numbers(hosts));
}
void Hosts::mend(const std::vector<int>& hosts) const {
  script(std::vector<std::string>{"mend", set_} + numbers(hosts));
}
void Hosts::apart(int host, const std::vector<int>& others) const {
  script(std::vector<std::string>{"apart", set_, std::to_string(host)} + numbers(others));
}
void Hosts::together(int host, const std::vector<int>& others) const {
  script(std::vector<std::string>{"together", set_, std::to_string(host)} + numbers(others));
}

}  // namespace ddprun::test

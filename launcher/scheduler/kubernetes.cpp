#include "launcher/scheduler/kubernetes.h"

#include <algorithm>
#include <sstream>
#include <vector>

namespace ddprun::launcher {
namespace {

constexpr const char* kIndex = "JOB_COMPLETION_INDEX";
constexpr const char* kHostsFile = "/etc/hosts";
constexpr const char* kPort = "29500";  // a pod has all ports to itself

// ".svc.ns.svc.cluster.local": the domain that a line of the file adds to this name; empty: none does.
std::string domain_of(const std::string& name, const std::string& hosts_file) {
  std::istringstream lines(hosts_file);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::string address, word;
    words >> address;
    while (words >> word)
      if (word.starts_with(name + ".")) return word.substr(name.size());
  }
  return {};
}

}  // namespace

std::string first_pod(const std::string& host_name, const std::string& index, const std::string& hosts_file) {
  const std::size_t dot = std::min(host_name.find('.'), host_name.size());  // a pod may have its full name
  const std::string name = host_name.substr(0, dot);
  if (!name.ends_with("-" + index)) return {};
  const std::string domain = dot < host_name.size() ? host_name.substr(dot) : domain_of(name, hosts_file);
  return domain.empty() ? "" : name.substr(0, name.size() - index.size()) + "0" + domain;
}

void propose_kubernetes(Proposals& proposals, const std::function<std::string()>& host_name,
                        const std::function<std::string()>& hosts_file) {
  if (!proposals.several_nodes()) return;
  const Variable index = proposals.variable(kIndex);
  if (proposals.elastic()) proposals.propose("rdzv-backend", "c10d", kIndex);
  proposals.propose("node-rank", index.value, kIndex);
  if (proposals.has_endpoint() || proposals.etcd() || !host_name || !hosts_file) return;
  const std::string first = first_pod(host_name(), index.value, hosts_file());
  if (!first.empty()) proposals.propose_endpoint(first, kHostsFile, kPort, kHostsFile);
}

}  // namespace ddprun::launcher

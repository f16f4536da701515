#include "launcher/config/machine.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <future>
#include <memory>

#include "agent/diagnosis/evidence.h"
#include "agent/process/groups/cpu_quota.h"
#include "launcher/config/visible_gpus.h"

namespace ddprun::launcher {
namespace {

int gpus() {
  static const int count = count_gpus(agent::gpu_variables());
  return count;
}

std::vector<std::string> network_interfaces() {
  std::vector<std::string> names;
  struct if_nameindex* all = if_nameindex();
  for (auto* one = all; one && one->if_index != 0; ++one) names.push_back(one->if_name);
  if (all) if_freenameindex(all);
  return names;
}

std::string text_of(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address->sa_family == AF_INET)
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text, sizeof text);
  if (address->sa_family == AF_INET6) {
    const in6_addr& v6 = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
    if (!IN6_IS_ADDR_LINKLOCAL(&v6)) inet_ntop(AF_INET6, &v6, text, sizeof text);
  }
  return text;
}

// The lowest of the limits on this process.
std::uint64_t memory_for_us() {
  const auto pages = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES));
  std::uint64_t bytes = pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  bytes = std::min(bytes, agent::read_memory_limit().value_or(bytes));
  for (const auto resource : {RLIMIT_AS, RLIMIT_DATA}) {
    rlimit limit{};
    if (getrlimit(resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
      bytes = std::min<std::uint64_t>(bytes, limit.rlim_cur);
  }
  return bytes;
}

std::uint64_t file_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return 0;
  return std::max<std::uint64_t>(limit.rlim_cur, 1);
}

}  // namespace

Machine this_machine() {
  cpu_set_t mask;
  const int cpus = sched_getaffinity(0, sizeof mask, &mask) == 0 ? CPU_COUNT(&mask) : 1;
  return {agent::cpus_within(cpus, agent::read_cpu_quota()), gpus, network_interfaces, memory_for_us(), file_limit()};
}

std::string address_of_interface(const std::string& name) {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(all, &freeifaddrs);
  for (const int family : {AF_INET, AF_INET6})
    for (const ifaddrs* one = all; one; one = one->ifa_next)
      if (one->ifa_name == name && one->ifa_addr && one->ifa_addr->sa_family == family)
        if (std::string text = text_of(one->ifa_addr); !text.empty()) return text;
  return {};
}

std::vector<rendezvous::Locality> whose_addresses(const std::vector<std::string>& hosts, Duration limit) {
  const TimePoint deadline = Clock::now() + limit;
  std::vector<std::future<rendezvous::LookUp>> coming;
  for (const std::string& host : hosts)
    coming.push_back(rendezvous::numeric_addresses(host).empty() ? rendezvous::look_up_in_thread(host)
                                                                 : std::future<rendezvous::LookUp>());
  std::vector<rendezvous::Locality> out;
  for (std::size_t i = 0; i < hosts.size(); ++i)
    if (!coming[i].valid())
      out.push_back(rendezvous::locality_of({.addresses = rendezvous::numeric_addresses(hosts[i])}));
    else
      out.push_back(coming[i].wait_until(deadline) == std::future_status::ready ? locality_of(coming[i].get())
                                                                                : rendezvous::Locality::unknown);
  return out;
}

std::string host_name() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return name;
}

}  // namespace ddprun::launcher

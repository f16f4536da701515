#include "trainer/ddp/group/roster.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "trainer/ddp/group/init_method.h"

namespace ddprun {
namespace {

constexpr const char* kNode = " node ";

// Where they have no names of their own: by the list that they are in, as ranks with different lists number GPUs
// differently.
std::vector<std::string> gpu_names_of(const Member& member) {
  std::vector<std::string> names;
  std::istringstream list(member.visible_gpus);
  for (std::string name; std::getline(list, name, ',');) names.push_back(name);
  if (static_cast<int>(names.size()) == member.gpus) return names;
  names.clear();
  for (int i = 0; i < member.gpus; ++i) names.push_back(member.visible_gpus + "#" + std::to_string(i));
  return names;
}

}  // namespace

std::string machine_name(const std::string& identity, int node) {
  return node < 0 ? identity : identity + kNode + std::to_string(node);
}

bool on_one_machine(const Roster& roster) {
  const auto identity = [](const Member& member) { return member.machine.substr(0, member.machine.rfind(kNode)); };
  return std::all_of(roster.begin(), roster.end(),
                     [&](const Member& member) { return identity(member) == identity(roster.front()); });
}

std::string to_text(const Roster& roster) {
  Roster kinds;
  std::vector<std::size_t> kind_of;
  for (const Member& member : roster) {
    const auto at = std::find(kinds.begin(), kinds.end(), member);
    kind_of.push_back(static_cast<std::size_t>(at - kinds.begin()));
    if (at == kinds.end()) kinds.push_back(member);
  }
  nlohmann::json json{{"kinds", nlohmann::json::array()}, {"of", kind_of}};
  for (const Member& kind : kinds) json["kinds"].push_back({kind.machine, kind.gpus, kind.visible_gpus, kind.backend});
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Roster roster_from_text(const std::string& text) {
  const auto json = nlohmann::json::parse(text);
  Roster roster;
  for (const auto& of : json.at("of")) {
    const auto& kind = json.at("kinds").at(of.get<std::size_t>());
    roster.push_back({kind.at(0), kind.at(1), kind.at(2), kind.at(3)});
  }
  return roster;
}

std::vector<int> ranks_on_machine_of(const Roster& roster, int rank) {
  std::vector<int> ranks;
  for (std::size_t i = 0; i < roster.size(); ++i)
    if (roster[i].machine == roster.at(static_cast<std::size_t>(rank)).machine) ranks.push_back(static_cast<int>(i));
  return ranks;
}

int gpu_of(const Roster& roster, int rank) {
  std::set<std::string> taken;
  int own = -1;
  for (const int other : ranks_on_machine_of(roster, rank)) {
    if (other > rank) break;
    const auto names = gpu_names_of(roster[static_cast<std::size_t>(other)]);
    const auto free = std::find_if(names.begin(), names.end(), [&](const auto& name) { return !taken.contains(name); });
    own = free == names.end() ? -1 : static_cast<int>(free - names.begin());
    if (own >= 0) taken.insert(*free);
  }
  return own;
}

BackendChoice choose_backend(const Roster& roster) {
  std::vector<int> others, without_gpu;
  for (std::size_t i = 0; i < roster.size(); ++i) {
    const int rank = static_cast<int>(i);
    if (roster[i].backend != roster[0].backend) others.push_back(rank);
    if (gpu_of(roster, rank) < 0) without_gpu.push_back(rank);
  }
  if (!others.empty())
    return {.problem = "rank 0 asks for the backend " + roster[0].backend + ", but " + name_ranks(others) +
                       " for another one"};
  if (roster[0].backend == "gloo") return {};
  if (without_gpu.empty()) return {.nccl = true};
  if (roster[0].backend == "auto") return {};
  const Member& first = roster[static_cast<std::size_t>(without_gpu[0])];
  return {.problem = "the backend nccl needs a GPU of its own for each rank, and " + name_ranks(without_gpu) +
                     (without_gpu.size() == 1 ? " has" : " have") + " none: rank " + std::to_string(without_gpu[0]) +
                     " sees " + std::to_string(first.gpus) + " for " +
                     std::to_string(ranks_on_machine_of(roster, without_gpu[0]).size()) + " ranks on its machine",
          .lacks_gpus = true};
}

}  // namespace ddprun

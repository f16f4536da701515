#include "launcher/scheduler/node_address.h"

#include <sstream>
#include <string_view>

namespace ddprun::launcher {
namespace {

// Of "   NodeAddr=10.0.0.1 NodeHostName=n1 Version=22.05.8"; empty: none.
std::string node_addr_in(const std::string& text) {
  constexpr std::string_view kKey = "NodeAddr=";
  std::istringstream words(text);
  for (std::string word; words >> word;)
    if (word.starts_with(kKey)) return word.substr(kKey.size());
  return {};
}

}  // namespace

// A name server that is slow is no reason for another address: the agents go on looking up.
NodeAddress address_of_node(const std::string& name, const NodeQuestions& ask) {
  const auto why = ask.why_no_address(name);
  if (!why || why->empty()) return {name};
  const std::string address = node_addr_in(ask.show_node(name));
  if (address.empty() || address == name) return {name, *why + ", and Slurm knows no other address of it"};
  const auto why_not = ask.why_no_address(address);
  if (!why_not || why_not->empty()) return {address};
  return {name, *why + ", nor has " + address + ", its NodeAddr in Slurm"};
}

}  // namespace ddprun::launcher

// By which address the other nodes reach one that Slurm names: its name, if it has an address here, else the NodeAddr
// of Slurm's configuration. Pure: who is asked is passed in.
#pragma once
#include <functional>
#include <optional>
#include <string>

namespace ddprun::launcher {

struct NodeQuestions {
  // Why a name has no address here, "" if it has one; empty: no answer yet.
  std::function<std::optional<std::string>(const std::string& name)> why_no_address;
  // What `scontrol show node NAME` prints; "" where it cannot be asked. Not asked about a name with an address.
  std::function<std::string(const std::string& name)> show_node;
};

struct NodeAddress {
  std::string host;          // the name, where nothing better is known
  std::string problem = {};  // why nobody may find it, a part of a sentence
};
NodeAddress address_of_node(const std::string& name, const NodeQuestions& ask);

}  // namespace ddprun::launcher

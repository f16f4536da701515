// What a scheduler proposes where the user gave nothing. Pure.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <string>

#include "launcher/scheduler/scheduler.h"

namespace ddprun::launcher {

struct Variable {
  std::string name = {}, value = {};
  explicit operator bool() const { return !value.empty(); }
};

class Proposals {
 public:
  explicit Proposals(const SchedulerInputs& inputs) : inputs_(inputs) {}

  // The first of these variables that is set and not empty; none: no name.
  Variable variable(std::initializer_list<const char*> names) const;
  Variable variable(const char* name) const { return variable({name}); }

  bool given(const char* option) const;                  // by the user
  std::uint64_t number_given(const char* option) const;  // 0: none
  bool standalone() const;
  // Several nodes, by the user's value or the proposed one.
  bool several_nodes() const;
  // A number of nodes that may change, or the backend for it.
  bool elastic() const;
  // The nodes find each other at etcd, none of which is a node.
  bool etcd() const { return text_of("rdzv-backend").starts_with("etcd"); }
  // The user said where the nodes meet.
  bool has_endpoint() const { return given("master-addr") || given("rdzv-endpoint"); }

  // Without effect where the user gave the option. `place` is the variable or the file that the value comes from.
  void propose(const char* option, const std::string& text, const std::string& place);
  // Where the nodes meet, by the backend's option. A static job's port may be left out.
  void propose_endpoint(const std::string& host, const std::string& host_place, const std::string& port,
                        const std::string& port_place);

  // Of a node with this name, for the others.
  NodeAddress address_of(const std::string& name) const {
    return inputs_.node ? address_of_node(name, *inputs_.node) : NodeAddress{name};
  }

  SchedulerValues values = {};

 private:
  const settings::Option& option(const char* name) const { return settings::option(inputs_.options, name); }
  std::string text_of(const char* name) const;  // the user's, else the proposed one

  const SchedulerInputs& inputs_;
};

}  // namespace ddprun::launcher

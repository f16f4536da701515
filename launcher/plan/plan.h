// What this ddprun is going to do, decided once from its Config: whatever follows reads the Plan, and no Config.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "agent/agent.h"
#include "launcher/config/config.h"
#include "launcher/plan/host_info.h"
#include "launcher/plan/interpreter.h"
#include "rendezvous/coordination/coordinator.h"

namespace ddprun::launcher {

// How the job's end becomes an exit code.
struct ExitRules {
  ExitCodeChoice choice = ExitCodeChoice::ddprun;
  std::optional<int> on_preempt = {};
};

// What a record says of the job that is known before it runs.
struct RecordFacts {
  bool by_ssh = false;
  std::string program = {}, run_id = {};
  std::string event_log = {}, log_folder = {};  // absolute paths; empty: none
  int nodes = 1;
  bool of_several_nodes = false;  // then the first one keeps it
  bool is_first_node = true;      // as far as is known before the nodes have met
};

struct Plan {
  bool by_python = false;            // the program is a script of Python's
  agent::AgentOptions options = {};  // but for what belongs to one process: its cookie, its keeper, its words
  rendezvous::RoundPolicy policy = {};
  std::vector<std::string> warnings = {};       // sentences
  std::string state_dir = {}, state_name = {};  // is made, and has the ledger of earlier starts; empty: none
  std::string preemption_probe = {};            // a program or a command; empty: none
  ExitRules exit = {};
  RecordFacts record = {};
};

RecordFacts record_facts(const Config& config, const std::string& run_id);
// Pure. Throws UsageError if there is no such program, or values do not fit the machine.
Plan make_plan(const Config& config, const Machine& machine, const SearchContext& programs, const HostInfo& host);

}  // namespace ddprun::launcher

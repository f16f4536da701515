#include "launcher/scheduler/node_questions.h"

#include "launcher/scheduler/program_run.h"
#include "rendezvous/base/error.h"
#include "rendezvous/peer/resolve.h"

namespace ddprun::launcher {
namespace {

constexpr std::chrono::seconds kLookUpLimit{3}, kSlurmLimit{10};

std::optional<std::string> why_no_address(const std::string& name) {
  if (!rendezvous::numeric_addresses(name).empty()) return "";
  auto coming = rendezvous::look_up_in_thread(name);
  if (coming.wait_for(kLookUpLimit) != std::future_status::ready) return {};
  return coming.get().error;
}

std::string show_node(const std::string& name) try {
  if (name.empty() || name.starts_with('-')) return {};  // none means all nodes
  return run_program({"scontrol", "show", "node", name}, kSlurmLimit).out;
} catch (const Error&) {
  return {};
}

}  // namespace

NodeQuestions node_questions() { return {why_no_address, show_node}; }

}  // namespace ddprun::launcher

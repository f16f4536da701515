#include "launcher/host_launch.h"

#include <algorithm>
#include <csignal>
#include <filesystem>

#include "launcher/config/exit_codes.h"
#include "launcher/config/inputs.h"
#include "launcher/config/machine.h"
#include "launcher/config/options.h"
#include "launcher/launch.h"
#include "launcher/plan/host_job.h"
#include "launcher/plan/search_context.h"
#include "launcher/ssh/folder_copy.h"
#include "launcher/ssh/host_node.h"
#include "launcher/ssh/ssh_command.h"
#include "rendezvous/base/error.h"
#include "rendezvous/base/version.h"

namespace ddprun::launcher {
namespace {

std::string config_text_of(const Config& config, const Inputs& inputs) {
  const settings::Setting* named = in_force(config.settings, "config");
  if (!named) return {};
  auto content = inputs.read_file(named->text);
  if (auto* file = std::get_if<FileText>(&content)) return std::move(file->text);
  throw UsageError("cannot read " + named->text + " again, for the hosts", std::get<Unreadable>(content).why,
                   "A configuration for several hosts comes from a file, not from a pipe.");
}

HeadFacts head_facts(const Config& config, const Inputs& inputs) {
  HeadFacts facts;
  facts.ddprun = own_program();
  facts.folder = std::filesystem::current_path().string();
  facts.environment = inputs.environment;
  facts.config_text = config_text_of(config, inputs);
  facts.version = version();
  facts.own_name = host_name();
  return facts;
}

void copy_to_hosts(const HostPlan& plan) {
  std::error_code unknown;
  if (!std::filesystem::is_directory(plan.sync, unknown))
    throw UsageError("cannot copy " + plan.sync_named + " to the hosts (--sync)", "there is no such folder");
  std::vector<std::string> others;
  for (const JobHost& host : plan.head.order.hosts)
    if (!is_this_machine(host.name, plan.head.own_name) && std::ranges::find(others, host.name) == others.end())
      others.push_back(host.name);
  if (!others.empty()) copy_folder(plan.head.order.ssh, plan.sync, others);
}

// As the agent will read it: the head's configuration file is not on this host.
std::vector<std::string> problems_on_host(const NodeQuestion& question) {
  Inputs inputs = process_inputs();
  inputs.read_file = [&question,
                      read = inputs.read_file](const std::string& path) -> std::variant<FileText, Unreadable> {
    if (path == question.config_name) return FileText{question.config_text};
    return read(path);
  };
  CommandLine line = read_command_line(question.words, inputs);
  const Machine machine = this_machine();
  for (std::string& sentence : problems(line.config, machine, line.mistakes))
    line.mistakes.push_back(std::move(sentence));
  if (!line.mistakes.empty()) return line.mistakes;
  try {
    (void)make_plan(line.config, machine, search_context(), host_info(line.config, machine, false));
  } catch (const Error& error) {
    return {error.what()};
  }
  return {};
}

}  // namespace

std::string dry_run_on_hosts(const Config& config, const Inputs& inputs) {
  HeadFacts facts = head_facts(config, inputs);
  facts.run_id = "(a random one)";
  return hosts_dry_run(config, host_job_order(config, facts), facts.own_name);
}

HostPlan plan_of_hosts(const Config& config, const Inputs& inputs) {
  HeadFacts facts = head_facts(config, inputs);
  facts.run_id = random_run_id();
  if (!config.certificates && !config.token) facts.token = rendezvous::make_token();
  return plan_on_hosts(config, facts);
}

agent::JobEnd launch_on_hosts(HostPlan plan, int keeper_fd, const Start& start) {
  if (!plan.head.order.token.empty()) hide_own_memory();
  if (!plan.sync.empty()) copy_to_hosts(plan);
  const agent::JobEnd end = run_job_head(std::move(plan.head), keeper_fd, start.prints_end);
  const bool nothing_ran = end.exit_code == kUsage || end.exit_code == kRendezvousImpossible;
  if (!nothing_ran) keep_record(start, plan.record, {}, end);
  return end;
}

int run_as_host_node() { return run_host_node(version(), problems_on_host); }

}  // namespace ddprun::launcher

#include "launcher/host_launch.h"

#include <algorithm>
#include <csignal>
#include <filesystem>

#include "launcher/config/exit_codes.h"
#include "launcher/config/help.h"
#include "launcher/config/inputs.h"
#include "launcher/config/machine.h"
#include "launcher/config/options.h"
#include "launcher/launch.h"
#include "launcher/plan/host_job.h"
#include "launcher/plan/search_context.h"
#include "launcher/ssh/folder_copy.h"
#include "launcher/ssh/host_node.h"
#include "launcher/ssh/job_head.h"
#include "launcher/ssh/ssh_command.h"
#include "rendezvous/base/error.h"
#include "rendezvous/peer/frame.h"

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
  return facts;
}

// Under the name by which the workers will look for it, links not followed.
void copy_to_hosts(const Config& config, const HeadFacts& facts) {
  std::string folder = (std::filesystem::path(facts.folder) / config.sync).lexically_normal();
  if (folder.size() > 1 && folder.ends_with('/')) folder.pop_back();
  std::error_code unknown;
  if (!std::filesystem::is_directory(folder, unknown))
    throw UsageError("cannot copy " + config.sync + " to the hosts (--sync)", "there is no such folder");
  if (folder == "/")
    throw UsageError("cannot copy / to the hosts (--sync)", "it is the whole disk", "Name the folder of your program.");
  std::vector<std::string> others;
  for (const HostEntry& host : config.hosts)
    if (!is_this_machine(host.name, host_name()) && std::ranges::find(others, host.name) == others.end())
      others.push_back(host.name);
  if (!others.empty()) copy_folder(config.ssh, folder, others);
}

std::set<int> ending_signals_of(const Config& config) {
  std::set<int> out(config.signals_to_handle.begin(), config.signals_to_handle.end());
  out.insert(config.preempt_signals.begin(), config.preempt_signals.end());
  return out;
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
  return hosts_dry_run(config, host_job_order(config, facts), host_name());
}

agent::JobEnd launch_on_hosts(const Config& config, const Inputs& inputs, int keeper_fd, const Start& start) {
  HeadFacts facts = head_facts(config, inputs);
  facts.run_id = random_run_id();
  if (!config.certificates) {
    hide_own_memory();
    facts.token = config.token ? "" : rendezvous::make_token();
  }
  if (!config.sync.empty()) copy_to_hosts(config, facts);
  JobHeadOptions options;
  options.order = host_job_order(config, facts);
  if (encode(options.order).size() > rendezvous::kFrameBytesMax)
    throw UsageError("cannot hand the job to its hosts",
                     "its command, configuration and environment take more than 4 MiB",
                     "Pass a file's name instead of its content.");
  options.least = hosts_needed(config);
  options.version = version();
  options.own_name = host_name();
  options.ending_signals = ending_signals_of(config);
  options.event_file = config.event_file;
  options.start_options = [&config](const std::map<int, HostReady>& ready) { return start_options(config, ready); };
  const agent::JobEnd end = run_job_head(std::move(options), keeper_fd, start.prints_end);
  const bool nothing_ran = end.exit_code == kUsage || end.exit_code == kRendezvousImpossible;
  if (!nothing_ran) keep_record(start, record_facts(config, facts.run_id), {}, end);
  return end;
}

int run_as_host_node() { return run_host_node(version(), problems_on_host); }

}  // namespace ddprun::launcher

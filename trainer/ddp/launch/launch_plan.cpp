#include "trainer/ddp/launch/launch_plan.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <variant>

#include "rendezvous/base/json_text.h"
#include "trainer/ddp/group/init_method.h"

namespace ddprun {
namespace {

constexpr int kProcessesMax = 4096, kMachinesMax = 1 << 16, kRestartsMax = 1 << 20;

std::string parent_folder(const std::string& path) {
  const auto slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

std::string value_of(const Environment& environment, const std::string& name) {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == at)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

}  // namespace

std::vector<std::string> problems(const LaunchOptions& options) {
  std::vector<std::string> out;
  const auto within = [&](const char* name, int value, int least, int most) {
    if (value < least || value > most)
      out.push_back(std::string(name) + " is " + std::to_string(value) + " but must be from " + std::to_string(least) +
                    " to " + std::to_string(most) + ".");
  };
  within("processes_per_machine", options.processes_per_machine, 1, kProcessesMax);
  within("machines", options.machines, 1, kMachinesMax);
  if (options.machines >= 1) within("machine_rank", options.machine_rank, 0, options.machines - 1);
  within("max_restarts", options.max_restarts, 0, kRestartsMax);
  if (options.timeout && options.timeout->count() <= 0) out.emplace_back("timeout must be above 0.");
  if (options.stop_grace.count() < 0) out.emplace_back("stop_grace must not be below 0.");
  if (options.dist_url == "auto") {
    if (options.machines > 1)
      out.push_back("dist_url is auto, which is for one machine, and machines is " + std::to_string(options.machines) +
                    ": give all of them an address of machine 0 and a free port there, such as "
                    "tcp://machine0.example:29500.");
  } else if (!options.dist_url.starts_with("tcp://")) {
    out.push_back("dist_url is '" + options.dist_url + "' but must be auto or tcp://host:port.");
  } else if (const auto method = parse_init_method(options.dist_url); std::holds_alternative<std::string>(method)) {
    out.push_back("dist_url: " + std::get<std::string>(method));
  }
  for (const std::string& argument : options.ddprun_arguments)
    if (!argument.starts_with('-') || argument == "--")
      out.push_back("ddprun_arguments has '" + argument + "' but takes options as --name or --name=value.");
  return out;
}

std::string already_in_job(const Environment& environment) {
  const bool launched = environment.contains("TORCHELASTIC_RUN_ID") || environment.contains("DDPRUN_JOB");
  if (!launched && !(environment.contains("RANK") && environment.contains("WORLD_SIZE"))) return "";
  const std::string rank = value_of(environment, "RANK");
  return "this process is " + (rank.empty() ? "a worker" : "rank " + rank) +
         " of a job already, and a worker cannot launch another job";
}

bool runs_in_process(const LaunchOptions& options) {
  return options.processes_per_machine == 1 && options.machines == 1 && !options.timeout && options.max_restarts == 0 &&
         options.ddprun_arguments.empty() && options.ddprun.empty();
}

std::vector<std::string> launcher_candidates(const LaunchOptions& options, const Environment& environment,
                                             const std::string& library) {
  if (!options.ddprun.empty()) return {options.ddprun};
  if (const std::string named = value_of(environment, "DDPRUN_LAUNCHER"); !named.empty()) return {named};
  std::vector<std::string> candidates;
  const std::string folder = parent_folder(library);
  // Relative to: a program that contains this code, lib/, lib/x86_64-linux-gnu/.
  for (const char* place : {"/ddprun", "/../bin/ddprun", "/../../bin/ddprun"}) candidates.push_back(folder + place);
  for (const std::string& one : split(value_of(environment, "PATH"), ':'))
    if (!one.empty()) candidates.push_back(one + "/ddprun");
  return candidates;
}

std::vector<std::string> launcher_command(const std::string& ddprun, const LaunchOptions& options,
                                          const std::string& program, const std::vector<std::string>& arguments) {
  std::vector<std::string> command{ddprun,
                                   "--nproc-per-node=" + std::to_string(options.processes_per_machine),
                                   "--nnodes=" + std::to_string(options.machines),
                                   "--node-rank=" + std::to_string(options.machine_rank),
                                   "--max-restarts=" + std::to_string(options.max_restarts),
                                   "--stop-grace=" + std::to_string(options.stop_grace.count())};
  if (options.dist_url == "auto") {
    command.emplace_back("--standalone");
  } else {
    const auto place = std::get<AtAddress>(parse_init_method(options.dist_url));
    command.push_back("--master-addr=" + place.host);
    command.push_back("--master-port=" + std::to_string(place.port));
  }
  command.insert(command.end(), options.ddprun_arguments.begin(), options.ddprun_arguments.end());
  command.insert(command.end(), {"--no-python", program});
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

std::string to_text(const LaunchedBy& by) { return std::to_string(by.call) + ":" + by.folder; }

std::optional<LaunchedBy> launched_by_from(const std::string& text) {
  LaunchedBy by;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, by.call);
  if (error != std::errc() || stop == end || *stop != ':') return {};
  by.folder.assign(stop + 1, end);
  return by.folder.starts_with('/') ? std::optional(by) : std::nullopt;
}

std::string message_in(const std::string& end_file) {
  const auto end = parse_json(end_file);
  const auto message = end.is_object() ? end.find("message") : end.end();
  return message != end.end() && message->is_string() ? message->get<std::string>() : "";
}

std::string failure_text(const LauncherEnd& end, const std::string& message, const LaunchOptions& options) {
  if (end.timed_out)
    return "the launched job was ended: it ran longer than " + format_duration(*options.timeout) +
           " (LaunchOptions::timeout).";
  if (!message.empty()) return message;
  return "ddprun ended with exit code " + std::to_string(end.exit_code) + ", without a message.";
}

std::string error_file(const std::string& type, const std::string& what, std::chrono::system_clock::time_point now) {
  const std::string text = type + ": " + what;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch()).count();
  const nlohmann::json file{
      {"message",
       {{"message", text}, {"extraInfo", {{"py_callstack", text}, {"timestamp", std::to_string(seconds)}}}}}};
  return json_text(file);
}

}  // namespace ddprun

#include "launcher/print/print_config.h"

#include "launcher/config/metrics_file.h"
#include "launcher/config/options.h"
#include "launcher/config/rules_file.h"
#include "launcher/settings/config_file.h"
#include "rendezvous/base/version.h"

namespace ddprun::launcher {
namespace {

std::string program_line(const Config& config) {
  if (config.program.empty()) return settings::commented("# program", "not set");
  return settings::commented("program = " + settings::toml_array(config.program),
                             config.program_place.empty() ? "command line" : config.program_place);
}

std::string requeues_line(const Config& config) {
  if (config.requeues.value_or(0) == 0) return {};
  return "# Slurm has requeued this job " + std::to_string(*config.requeues) +
         (*config.requeues == 1 ? " time" : " times") + " (SLURM_RESTART_COUNT).\n";
}

// Why an option has no value.
std::function<std::string(const settings::Option&)> unset_in(const Config& config) {
  return [&config](const settings::Option& unset) {
    const bool by_variable = &unset == &option("token-file") && !config.token_variable.empty();
    return by_variable ? config.token_variable + ": set, not shown" : "";
  };
}

// What follows the options.
std::string rest_of(const Config& config, const std::string& python) {
  std::string out = program_line(config);
  if (!python.empty()) out += "# " + python + "\n";
  if (!config.env.empty()) out += "\n[env]\n";
  for (const auto& [name, value] : config.env) out += settings::toml_key(name) + " = " + toml_string(value) + "\n";
  return out + print_rules({config.rounds.rules, config.output_rules}) + print_metrics(config.output_metrics);
}

}  // namespace

std::string print_config(const Config& config, const std::string& python) {
  std::string out = std::string("# What is in force for ddprun ") + version() + ", and where it came from.\n";
  out += requeues_line(config) + "\n";
  out += settings::print_settings(options(), config.settings, &config, unset_in(config));
  return out + "\n" + rest_of(config, python);
}

std::string print_changed_config(const Config& config, const std::string& python) {
  std::vector<settings::Setting> given = config.settings;
  std::erase_if(given, [](const settings::Setting& one) { return one.option == &option("verbose"); });  // as is seen
  const std::string changed = settings::print_changed(options(), given, &config, unset_in(config));
  return std::string("# ddprun ") + version() + ": " +
         (changed.empty() ? "all values are the defaults.\n" : "what is not the default, and where it came from.\n") +
         requeues_line(config) + changed + rest_of(config, python);
}

}  // namespace ddprun::launcher

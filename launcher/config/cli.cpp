#include "launcher/config/cli.h"

#include "launcher/config/etcd_settings.h"
#include "launcher/config/help.h"
#include "launcher/config/man_page.h"
#include "launcher/config/options.h"
#include "launcher/config/options_file.h"
#include "launcher/config/values.h"
#include "launcher/scheduler/scheduler.h"
#include "launcher/settings/argv_parser.h"
#include "launcher/settings/environment.h"
#include "launcher/settings/help.h"
#include "launcher/settings/nearest_name.h"
#include "launcher/settings/paths.h"
#include "launcher/settings/yaml.h"
#include "rendezvous/base/spelling.h"
#include "rendezvous/base/version.h"
#include "rendezvous/peer/token.h"

namespace ddprun::launcher {
namespace {

using settings::Setting, settings::subject;

void append(std::vector<std::string>& to, const std::vector<std::string>& more) {
  to.insert(to.end(), more.begin(), more.end());
}
void append(std::vector<Setting>& to, const std::vector<Setting>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

// The option that a name is or may be meant for, or one of `others`; empty: none is near.
std::string name_meant(const std::string& name, const std::vector<std::string>& others) {
  if (settings::find_option(options(), name)) return name;
  const auto longer = settings::abbreviated(options(), name);
  if (longer.size() == 1) return longer.front()->name;
  const settings::Option* option = settings::nearest_option(options(), name);
  const std::string other = longer.empty() ? settings::nearest_name(with_dashes(name), others) : "";
  if (!option || other.empty()) return option ? option->name : other;
  return distance(with_dashes(name), option->name) < distance(with_dashes(name), other) ? option->name : other;
}

// For the keywords of ddprun.launch(), which are not abbreviated, and for notebooks, which have options of their own
// behind a ';': each name, and what it is or may be meant for. "nproc_per=nproc-per-node"
std::string checked_names(const std::string& text) {
  const std::size_t end = text.find(';');
  const std::vector<std::string> others =
      end == text.npos ? std::vector<std::string>() : split(text.substr(end + 1), ',');
  std::string out;
  for (const std::string& name : split(text.substr(0, end), ',')) out += name + "=" + name_meant(name, others) + "\n";
  return out;
}

void answer_help(const std::string& name, CommandLine& line) {
  line.answer = help_text(name);
  if (line.answer.empty()) line.mistakes = {visible(no_help(name))};
}

// --help, --version, --make-token, --print-completion, --generate and --check-names: the text to print instead of
// running.
void answer(const std::vector<Setting>& settings, const Inputs& inputs, CommandLine& line) {
  if (const Setting* help = in_force(settings, "help"))
    answer_help(help->text, line);
  else if (in_force(settings, "version"))
    line.answer = version_line("ddprun", inputs.commit);
  else if (in_force(settings, "make-token") && inputs.make_token)
    line.answer = inputs.make_token() + "\n";
  else if (const Setting* shell = in_force(settings, "print-completion"))
    line.answer = settings::completion(options(), shell->text);
  else if (const Setting* what = in_force(settings, "generate"); what && what->text == "man")
    line.answer = man_page();
  else if (const Setting* names = in_force(settings, "check-names"))
    line.answer = checked_names(names->text);
}

std::string unreadable(const Setting& named, const Unreadable& failed) {
  return subject(named) + " is '" + named.text + "', which cannot be read: " + failed.why + ".";
}

// The line that converts the file is one with --print-config. A job's file has more keys than options.
void answer_to_yaml(const std::string& file, const std::string& text, CommandLine& line) {
  if (in_force(line.config.settings, "print-config"))
    line.answer = settings::toml_from_yaml(options(), text, settings::OtherKeys::stay);
  else
    line.mistakes.push_back(settings::yaml_refusal(file, options().program));
}

void read_file(const Inputs& inputs, CommandLine& line) {
  const Setting* named = in_force(line.config.settings, "config");
  if (!named || !inputs.read_file) return;
  if (named->text.empty())
    return line.mistakes.push_back(settings::invalid_value(subject(*named), "", "it takes the name of a file"));
  const auto content = inputs.read_file(named->text);
  if (const auto* failed = std::get_if<Unreadable>(&content))
    return line.mistakes.push_back(unreadable(*named, *failed));
  const std::string& text = std::get<FileText>(content).text;
  if (settings::is_yaml(named->text)) return answer_to_yaml(named->text, text, line);
  OptionsFile file = read_options_file(named->text, text);
  append(line.config.settings, file.settings);
  append(line.mistakes, settings::expand_paths(line.config.settings, settings::PathsOf::file, inputs.environment));
  append(line.mistakes, file.mistakes);
  line.config.env = std::move(file.env);
  line.config.rounds.rules = std::move(file.rules.failures);
  line.config.output_rules = std::move(file.rules.output);
  line.config.output_metrics = std::move(file.metrics);
  if (!line.config.program.empty() || file.program.empty()) return;
  line.config.program = std::move(file.program);
  line.config.program_place = file.program_place;
}

std::string hosts_file(const Inputs& inputs) {
  const auto content = inputs.read_file ? inputs.read_file("/etc/hosts") : Unreadable{};
  const auto* file = std::get_if<FileText>(&content);
  return file ? file->text : "";
}

bool names_hosts(const CommandLine& line) {
  for (const char* name : {"hosts", "hostfile"})
    if (const Setting* given = in_force(line.config.settings, name); given && !given->text.empty()) return true;
  return false;
}

// With --hosts the job's nodes are those hosts, whatever a scheduler says; one task starts them all.
void refuse_several_tasks(const Inputs& inputs, CommandLine& line) {
  const auto tasks = inputs.environment.find("SLURM_STEP_NUM_TASKS");
  if (tasks == inputs.environment.end() || settings::whole_text<int>(tasks->second).value_or(1) < 2) return;
  line.mistakes.push_back(
      "--hosts starts the job on all its hosts, but this ddprun is one of the " + tasks->second +
      " tasks of a step (SLURM_STEP_NUM_TASKS): start it once, without srun, or leave --hosts out.");
}

void read_hosts(const Inputs& inputs, CommandLine& line) {
  Config& config = line.config;
  if (config.hostfile.empty()) return;
  const Setting& named = *in_force(config.settings, "hostfile");
  if (!config.hosts.empty())
    return line.mistakes.push_back(subject(named) + " and " + subject(*in_force(config.settings, "hosts")) +
                                   " both name the job's hosts: leave out one of them.");
  const auto content = inputs.read_file ? inputs.read_file(named.text) : Unreadable{};
  if (const auto* failed = std::get_if<Unreadable>(&content))
    return line.mistakes.push_back(unreadable(named, *failed));
  HostFile file = read_host_file(named.text, std::get<FileText>(content).text);
  append(line.mistakes, file.mistakes);
  config.hosts = std::move(file.hosts);
}

void read_scheduler(const Inputs& inputs, CommandLine& line) {
  if (names_hosts(line)) return refuse_several_tasks(inputs, line);
  const SchedulerValues found = scheduler_values({options(), line.config.settings, inputs.environment, inputs.host_name,
                                                  [&] { return hosts_file(inputs); }, inputs.node});
  append(line.config.settings, found.settings);
  append(line.warnings, found.warnings);
  append(line.mistakes, found.mistakes);
  line.config.requeues = found.requeues;
}

// `who` is the subject of the message, which never contains the token.
std::optional<rendezvous::Token> parse_token(const std::string& who, std::string_view text, CommandLine& line) {
  auto parsed = rendezvous::Token::parse(text);
  if (auto* token = std::get_if<rendezvous::Token>(&parsed)) return std::move(*token);
  line.mistakes.push_back(who + " holds no token: " + std::get<rendezvous::InvalidToken>(parsed).complaint +
                          ". ddprun --make-token prints one.");
  return {};
}

// An option that names a token's file, where else its token may be, and what somebody else could do with it.
struct TokenOption {
  const char* name;
  std::string also;
  std::string risk;
};

std::optional<rendezvous::Token> token_of_file(const TokenOption& option, const Inputs& inputs, CommandLine& line) {
  const Setting* named = in_force(line.config.settings, option.name);
  if (!named || named->text.empty() || !inputs.read_file) return {};
  auto content = inputs.read_file(named->text);
  if (std::holds_alternative<Unreadable>(content) &&
      std::holds_alternative<rendezvous::Token>(rendezvous::Token::parse(named->text))) {
    line.mistakes.push_back(
        subject(*named) + " takes the name of a file, and no file has the name given. Put a token itself into a file" +
        option.also + ": other users can see a command line.");
    return {};
  }
  const std::string who = subject(*named) + " is '" + named->text + "', which ";
  if (const auto* failed = std::get_if<Unreadable>(&content)) {
    line.mistakes.push_back(unreadable(*named, *failed));
    return {};
  }
  auto& file = std::get<FileText>(content);
  if (file.others_may_read)
    line.warnings.push_back(who + "other users may read: chmod 600 it, or they can " + option.risk + ".");
  std::optional<rendezvous::Token> token = parse_token(subject(*named), file.text, line);
  rendezvous::wipe(file.text);
  return token;
}

void read_token(const Inputs& inputs, CommandLine& line) {
  Config& config = line.config;
  config.token = token_of_file({"token-file", " or into DDPRUN_TOKEN", "join the job"}, inputs, line);
  config.metrics.token = token_of_file({"metrics-token-file", "", "read the metrics"}, inputs, line);
  const auto variable = inputs.environment.find(rendezvous::kTokenVariable);
  if (variable == inputs.environment.end() || variable->second.empty()) return;
  config.token_variable = rendezvous::kTokenVariable;
  const auto token =
      parse_token(std::string(rendezvous::kTokenVariable) + " in the environment", variable->second, line);
  if (token && config.token && *token != *config.token)
    line.mistakes.push_back(subject(*in_force(config.settings, "token-file")) + " and " + rendezvous::kTokenVariable +
                            " in the environment hold different tokens: leave out one of them.");
  if (token) config.token = token;
}

std::optional<rendezvous::PemFile> read_pem(const char* name, const Inputs& inputs, CommandLine& line) {
  const Setting& named = *in_force(line.config.settings, name);
  auto content = inputs.read_file(named.text);
  if (auto* file = std::get_if<FileText>(&content)) return rendezvous::PemFile(named.text, std::move(file->text));
  line.mistakes.push_back(unreadable(named, std::get<Unreadable>(content)));
  return {};
}

// All three or none: problems() reports a missing one, or an additional token.
void read_certificates(const Inputs& inputs, CommandLine& line) {
  const Config& config = line.config;
  if (config.tls_cert.empty() || config.tls_key.empty() || config.tls_ca.empty()) return;
  if (config.token || !inputs.read_file) return;
  auto certificate = read_pem("tls-cert", inputs, line), key = read_pem("tls-key", inputs, line),
       authority = read_pem("tls-ca", inputs, line);
  if (certificate && key && authority)
    line.config.certificates =
        rendezvous::CertificateFiles{std::move(*certificate), std::move(*key), std::move(*authority)};
}

}  // namespace

CommandLine read_command_line(const std::vector<std::string>& arguments, const Inputs& inputs) {
  CommandLine line;
  settings::ParseResult typed = settings::parse_arguments(options(), arguments);
  answer(typed.settings, inputs, line);
  if (!line.answer.empty() || !line.mistakes.empty()) return line;
  settings::EnvOptions env_options = settings::read_environment(options(), inputs.environment);
  line.config.program = std::move(typed.program);
  line.mistakes = std::move(typed.mistakes);
  append(line.mistakes, env_options.mistakes);
  append(line.config.settings, typed.settings);
  append(line.config.settings, env_options.settings);
  append(line.mistakes, settings::expand_paths(line.config.settings, settings::PathsOf::words, inputs.environment));
  read_file(inputs, line);
  if (!line.answer.empty()) return line;
  read_scheduler(inputs, line);
  append(line.mistakes, settings::apply(options(), line.config.settings, &line.config));
  read_hosts(inputs, line);
  read_token(inputs, line);
  read_certificates(inputs, line);
  read_etcd(inputs, line);
  for (std::string& sentence : line.warnings) sentence = visible(sentence);
  for (std::string& sentence : line.mistakes) sentence = visible(sentence);
  return line;
}

}  // namespace ddprun::launcher

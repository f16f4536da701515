#include "launcher/config/etcd_settings.h"

#include <initializer_list>
#include <memory>

#include "agent/etcd/etcd_credentials.h"
#include "launcher/config/options.h"
#include "launcher/settings/values.h"
#include "rendezvous/base/spelling.h"
#include "rendezvous/peer/token.h"

namespace ddprun::launcher {
namespace {

using Names = std::initializer_list<const char*>;

constexpr int kEtcdPort = 2379;
constexpr int kSilentRoundMin = 15;             // seconds: agents without a coordinator need some to end their workers
constexpr std::chrono::minutes kKeepLeast{10};  // longer than any silent_round and failover
constexpr std::chrono::hours kKeepMost{24 * 365};
constexpr Names kAuthority{"cacert", "ca_cert"}, kCertificate{"cert", "ssl_cert"}, kKey{"key", "ssl_cert_key"};
constexpr Names kPrefix{"etcd_prefix", "prefix"};

struct ConfItem {
  std::string name = {}, value = {};  // without a value: not given
};

ConfItem conf_item(const Config& config, Names names) {
  for (const char* name : names)
    if (const auto found = config.rdzv_conf.find(name); found != config.rdzv_conf.end()) return {name, found->second};
  return {};
}

// Without etcd a job of one node runs as well.
bool needs_etcd(const Config& config) {
  if (config.rdzv_backend != Backend::etcd) return false;
  return config.hosts.empty() ? several_nodes(config) : config.hosts.size() > 1;
}

bool by_https(const Config& config) {
  return config.endpoint_scheme == "https" || conf_item(config, {"protocol"}).value == "https";
}

bool is_given(const Config& config, const char* name) {
  const settings::Setting* setting = in_force(config.settings, name);
  return setting && !setting->text.empty();
}

std::vector<agent::HttpUrl> members_of(const Config& config) {
  std::vector<Endpoint> all = config.further_endpoints;
  if (config.rdzv_endpoint) all.insert(all.begin(), *config.rdzv_endpoint);
  std::vector<agent::HttpUrl> out;
  for (const Endpoint& one : all)
    out.push_back({by_https(config), one.host, static_cast<std::uint16_t>(one.port.value_or(kEtcdPort))});
  return out;
}

std::string scheme_problem(const Config& config) {
  const std::string protocol = conf_item(config, {"protocol"}).value, &scheme = config.endpoint_scheme;
  if (!protocol.empty() && !scheme.empty() && protocol != scheme)
    return subject_of(config.settings, "rdzv-endpoint") + " begins with " + scheme + "://, but --rdzv-conf says " +
           "protocol=" + protocol + ": leave out one of them.";
  if (by_https(config)) return {};
  for (const Names& names : {kAuthority, kCertificate})
    if (const ConfItem item = conf_item(config, names); !item.value.empty())
      return "--rdzv-conf names " + item.name + ", but etcd is asked by http: add protocol=https, or leave it out.";
  return {};
}

// Of two that go together one is missing.
std::string pair_problem(const Config& config, Names first, Names second) {
  const ConfItem one = conf_item(config, first), other = conf_item(config, second);
  if (one.value.empty() == other.value.empty()) return {};
  const bool lacks_second = other.value.empty();
  return "--rdzv-conf names " + (lacks_second ? one.name : other.name) + " without " +
         *(lacks_second ? second : first).begin() + ": pass both, or none of them.";
}

std::optional<FileText> file_of(const ConfItem& item, const Inputs& inputs, CommandLine& line) {
  auto content = inputs.read_file(item.value);
  if (auto* file = std::get_if<FileText>(&content)) return std::move(*file);
  const std::string value = item.name == "password_file" ? "" : "=" + item.value;  // it may be the password itself
  line.mistakes.push_back("--rdzv-conf names " + item.name + value +
                          ", which cannot be read: " + std::get<Unreadable>(content).why + ".");
  return {};
}

std::optional<agent::NamedText> pem_of(Names names, const Inputs& inputs, CommandLine& line) {
  const ConfItem item = conf_item(line.config, names);
  if (item.value.empty()) return {};
  auto file = file_of(item, inputs, line);
  return file ? std::optional(agent::NamedText{item.value, std::move(file->text)}) : std::nullopt;
}

agent::NamedText password_of(const Inputs& inputs, CommandLine& line) {
  const ConfItem item = conf_item(line.config, {"password_file"});
  auto file = item.value.empty() ? std::nullopt : file_of(item, inputs, line);
  if (!file) return {};
  const std::string who = "--rdzv-conf names password_file=" + item.value;
  if (file->others_may_read)
    line.warnings.push_back(who + ", which other users may read: chmod 600 it, or they can write to etcd as " +
                            conf_item(line.config, {"user"}).value + ".");
  agent::NamedText password{item.value, agent::password_in(file->text)};
  rendezvous::wipe(file->text);
  if (password.text.empty())
    line.mistakes.push_back(who + ", which does not hold one line: put the password alone into it.");
  return password;
}

void read_limits(const Config& config, agent::EtcdAccess& out) {
  if (const auto seconds = settings::whole_text<int>(conf_item(config, {"silent_round"}).value))
    out.silent_round = std::chrono::seconds(*seconds);
  const auto keep = settings::read_duration(conf_item(config, {"keep"}).value);
  if (const auto* time = std::get_if<Duration>(&keep)) out.keep = std::chrono::ceil<std::chrono::seconds>(*time);
}

}  // namespace

std::string etcd_value_problem(const std::string& key, const std::string& value) {
  const auto takes = [&](const std::string& what) { return key + " takes " + what + ", not '" + value + "'"; };
  if (key == "protocol") return value == "http" || value == "https" ? "" : takes("http or https");
  if (key.ends_with("prefix"))
    return value.starts_with('/') && !value.ends_with('/') ? ""
                                                           : takes("a text like /team/ddprun, without '/' at its end");
  if (key == "silent_round") {
    const auto whole = settings::whole_text<int>(value);
    return whole && *whole >= kSilentRoundMin ? ""
                                              : takes("whole seconds from " + std::to_string(kSilentRoundMin) + " up");
  }
  if (key != "keep") return {};
  const auto read = settings::read_duration(value);
  const auto* time = std::get_if<Duration>(&read);
  return time && *time >= kKeepLeast && *time <= kKeepMost ? "" : takes("a time such as 7d, from 10m to 365d");
}

std::vector<std::string> etcd_problems(const Config& config) {
  std::vector<std::string> out;
  if (config.rdzv_backend != Backend::etcd && !config.endpoint_scheme.empty())
    out.push_back(subject_of(config.settings, "rdzv-endpoint") + " begins with " + config.endpoint_scheme +
                  "://, which is for etcd: pass --rdzv-backend etcd, or HOST:PORT.");
  if (!needs_etcd(config)) return out;
  if (!is_given(config, "rdzv-endpoint"))
    out.push_back(subject_of(config.settings, "rdzv-backend") +
                  " is etcd, but --rdzv-endpoint is missing: pass HOST:PORT,HOST:PORT, the members of its cluster.");
  if (!is_given(config, "rdzv-id") && config.hosts.empty())
    out.push_back(
        "--rdzv-id is missing: other jobs use etcd, too, so give this one a name, the same on all its nodes.");
  for (const std::string& problem : {scheme_problem(config), pair_problem(config, {"user"}, {"password_file"}),
                                     pair_problem(config, kCertificate, kKey)})
    if (!problem.empty()) out.push_back(problem);
  return out;
}

void read_etcd(const Inputs& inputs, CommandLine& line) {
  Config& config = line.config;
  if (config.rdzv_backend != Backend::etcd) return;
  const settings::Setting& named = *in_force(config.settings, "rdzv-backend");
  if (named.text == "etcd-v2")
    line.warnings.push_back(subject(named) + " is etcd-v2, but etcd's API v3 is used: v2 need not be enabled there.");
  if (config.hosts.empty() && !needs_etcd(config) && !config.standalone)
    line.warnings.push_back("the job has one node (--nnodes): it runs without etcd.");
  if (!config.hosts.empty() || !needs_etcd(config) || !inputs.read_file) return;  // each host reads its own
  agent::EtcdAccess access{.members = members_of(config)};
  if (const ConfItem prefix = conf_item(config, kPrefix); !prefix.value.empty()) access.prefix = prefix.value;
  access.user = conf_item(config, {"user"}).value;
  access.password = password_of(inputs, line);
  access.pem = {pem_of(kAuthority, inputs, line), pem_of(kCertificate, inputs, line), pem_of(kKey, inputs, line)};
  read_limits(config, access);
  config.etcd = std::make_shared<const agent::EtcdAccess>(std::move(access));
}

}  // namespace ddprun::launcher

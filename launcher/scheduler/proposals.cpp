#include "launcher/scheduler/proposals.h"

#include "launcher/settings/values.h"

namespace ddprun::launcher {

Variable Proposals::variable(std::initializer_list<const char*> names) const {
  for (const char* name : names)
    if (const auto found = inputs_.environment.find(name); found != inputs_.environment.end() && !found->second.empty())
      return {name, found->second};
  return {};
}

bool Proposals::given(const char* name) const { return in_force(inputs_.given, option(name)) != nullptr; }

std::string Proposals::text_of(const char* name) const {
  const settings::Setting* setting = in_force(inputs_.given, option(name));
  if (!setting) setting = in_force(values.settings, option(name));
  return setting ? setting->text : "";
}

std::uint64_t Proposals::number_given(const char* name) const {
  return settings::whole_text<std::uint64_t>(text_of(name)).value_or(0);
}

bool Proposals::standalone() const { return given("standalone") && settings::is_true(text_of("standalone")); }

bool Proposals::several_nodes() const {
  const std::string nodes = text_of("nnodes");
  const auto most = settings::whole_text<int>(std::string_view(nodes).substr(nodes.rfind(':') + 1));
  return most && *most > 1 && !standalone();
}

bool Proposals::elastic() const {
  return given("rdzv-backend") ? text_of("rdzv-backend") == "c10d" || etcd()
                               : text_of("nnodes").find(':') != std::string::npos;
}

void Proposals::propose(const char* name, const std::string& text, const std::string& place) {
  if (!given(name)) values.settings.push_back({&option(name), text, settings::Origin::scheduler, place});
}

void Proposals::propose_endpoint(const std::string& host, const std::string& host_place, const std::string& port,
                                 const std::string& port_place) {
  if (elastic()) return propose("rdzv-endpoint", port.empty() ? host : host + ":" + port, host_place);
  propose("master-addr", host, host_place);
  if (!port.empty()) propose("master-port", port, port_place);
}

}  // namespace ddprun::launcher

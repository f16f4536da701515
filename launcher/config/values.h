// Parsers for ddprun's own kinds of values; settings/values.h describes the result. Pure.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "launcher/config/config.h"
#include "launcher/settings/values.h"

namespace ddprun::launcher {

using settings::Read, settings::Wrong;

constexpr int kPortMax = 65'535;
// Of the places of an etcd: a '@' belongs to no host.
inline constexpr const char* kHoldsUser =
    "holds a user's name or password, which others could read: leave it out, and pass "
    "--rdzv-conf=user=NAME,password_file=FILE";

Read<WorkerCount> read_worker_count(const std::string& text);  // "4", "cpu", "gpu", "auto"
Read<NodeCounts> read_node_counts(const std::string& text);    // "4", "2:4"
Read<std::vector<int>> read_signals(const std::string& text);  // "SIGTERM,USR1"
Read<std::string> read_host(const std::string& text);          // brackets of IPv6 are removed
Read<Endpoint> read_endpoint(const std::string& text);         // host[:port], [::1]:29500
// Cuts off http:// or https:// and the '/' of an empty path, and returns "http" or "https"; empty: it has neither.
std::string take_scheme(std::string& place);
Read<Endpoint> read_listen_place(const std::string& text);  // "9100", ":9100": loopback; "0.0.0.0:9100", "[::1]:9100"
Read<std::string> read_otlp(const std::string& text);       // "http://collector:4318", "env"
Read<rendezvous::PortRange> read_port_range(const std::string& text);  // "29600-29609", "29600"; empty: any
Read<std::vector<std::string>> read_filters(const std::string&);       // a comma-separated list; ",," is a comma
Read<std::map<std::string, std::string>> read_rdzv_conf(const std::string& text);
Read<agent::MachineLimits> read_machine_limits(const std::string& text);     // "disk=10G,gpu-memory=90%,clock=1s"
Read<rendezvous::RestartLimit> read_restart_limit(const std::string& text);  // "5", "5 in 1h"
// "crash=5 in 1h,out-of-memory=2"
Read<std::map<rendezvous::FailureClass, rendezvous::RestartLimit>> read_restart_limits(const std::string& text);
Read<agent::HangLimits> read_hang_limits(const std::string& text);  // "auto", "off", "30s", "save=20m,wait=off"
// Text with ${name} in it; a name close to one of `names` is a typo, any other stays unchanged.
Read<std::string> read_template(const std::string& text, const std::vector<std::string>& names);

std::string signal_names(const std::vector<int>& signals);  // "SIGTERM,SIGINT"

}  // namespace ddprun::launcher

// etcd as the place where a job's nodes find each other (--rdzv-backend=etcd): what --rdzv-endpoint and --rdzv-conf say
// about it. All but read_etcd() is pure.
#pragma once
#include <string>
#include <vector>

#include "launcher/config/cli.h"
#include "launcher/config/config.h"

namespace ddprun::launcher {

// Keys of --rdzv-conf: both spellings of torchrun, and ours. Jobs without etcd accept and ignore them.
inline constexpr const char* kEtcdKeys[] = {
    "protocol",    "cacert", "ca_cert", "cert", "ssl_cert",      "key",          "ssl_cert_key",
    "etcd_prefix", "prefix", "user",    "keep", "password_file", "silent_round",
};

// What is wrong with the value of such a key; empty: nothing.
std::string etcd_value_problem(const std::string& key, const std::string& value);

// A sentence for each mistake in the whole of them.
std::vector<std::string> etcd_problems(const Config& config);

// Fills Config::etcd if the job needs it, and reads the files that --rdzv-conf names.
void read_etcd(const Inputs& inputs, CommandLine& line);

}  // namespace ddprun::launcher

// The text of an option's value, read: a value, or what is wrong with the text as the rest of a sentence.
//
// That rest begins with "it takes ..." or with the offending part in quotes; nonsense() makes the sentence. Pure.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "launcher/config.h"

namespace ddprun {

struct Wrong {
  std::string complaint;
};
template <class Value>
using Read = std::variant<Value, Wrong>;

// "--max-restarts is 'many'; it takes a whole number from 0 up."
std::string nonsense(const std::string& subject, const std::string& text, const std::string& complaint);

Read<bool> read_flag(const std::string& text);
Read<int> read_whole_number(const std::string& text, int min, int max);
Read<Duration> read_duration(const std::string& text);            // "25", "2.5", "90s", "15m", "2h", "1d"
Read<std::uint64_t> read_byte_size(const std::string& text);      // "0", "100M", "1.5G"
Read<std::vector<int>> read_signals(const std::string& text);     // "SIGTERM,USR1"
Read<std::string> read_host(const std::string& text);             // brackets of IPv6 are taken off
Read<Endpoint> read_endpoint(const std::string& text);            // host[:port], [::1]:29500
Read<PortRange> read_port_range(const std::string& text);         // "29600-29609", "29600"; empty: any
Read<std::vector<std::string>> read_filters(const std::string&);  // a comma-separated list; ",," is a comma
Read<std::map<std::string, std::string>> read_rdzv_conf(const std::string& text);
// Text with ${name} in it; a name that is nearly one of `names` is a typo, any other is left for print.
Read<std::string> read_template(const std::string& text, const std::vector<std::string>& names);

std::string signal_names(const std::vector<int>& signals);  // "SIGTERM,SIGINT"

}  // namespace ddprun

// Parses where the ranks of a group meet, and formats parts of messages about missing ranks.
//
// Pure: text in, values or sentences out.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace ddprun {

struct FromEnvironment {};  // env://

struct AtAddress {  // tcp://host:port, with a host in brackets if it contains colons
  std::string host;
  std::uint16_t port = 0;
};

struct InFile {  // file:///path
  std::string path;
};

// The string is an error sentence.
using InitMethod = std::variant<FromEnvironment, AtAddress, InFile, std::string>;
InitMethod parse_init_method(const std::string& text);

// "rank 2", "ranks 2 and 5", "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 92 more". Ascending, not empty.
std::string name_ranks(const std::vector<int>& ranks);

// "30 s", "1500 ms": in seconds if they are whole.
std::string format_duration(std::chrono::milliseconds time);

}  // namespace ddprun

#include "agent/stacks/memory_map.h"

#include <algorithm>
#include <cstdlib>

#include "agent/process/files/file_content.h"
#include "agent/process/process_table.h"
#include "rendezvous/base/spelling.h"

namespace ddprun::agent {
namespace {

constexpr int kFieldsBeforePath = 5;  // range, rights, offset, device, inode

std::string path_of(const std::string& line) {
  std::size_t at = 0;
  for (int field = 0; field < kFieldsBeforePath; ++field) at = line.find_first_not_of(' ', line.find(' ', at));
  return at >= line.size() ? "" : line.substr(at);
}

bool parse_mapping(const std::string& line, Mapping& mapping) {
  char* end = nullptr;
  mapping.begin = std::strtoull(line.c_str(), &end, 16);
  if (*end != '-') return false;
  mapping.end = std::strtoull(end + 1, &end, 16);
  if (*end != ' ') return false;
  mapping.path = path_of(line);
  return true;
}

}  // namespace

std::vector<Mapping> parse_memory_map(const std::string& text) {
  std::vector<Mapping> map;
  for (const std::string& line : split(text, '\n'))
    if (Mapping mapping; parse_mapping(line, mapping)) map.push_back(mapping);
  return map;
}

std::vector<Mapping> memory_map(pid_t pid) { return parse_memory_map(file_content(table_entry(pid) / "maps")); }

const Mapping* mapping_from(const std::vector<Mapping>& map, std::uint64_t address) {
  const auto found = std::upper_bound(map.begin(), map.end(), address,
                                      [](std::uint64_t place, const Mapping& mapping) { return place < mapping.end; });
  return found == map.end() ? nullptr : &*found;
}

}  // namespace ddprun::agent

#include "agent/diagnosis/oom_count.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>

namespace ddprun::agent {
namespace {

// Above any machine's memory: version 1 writes "no limit" as the largest number of whole pages.
constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 62;

std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data()) return {};
  return value;
}

const MemoryGroup* same_group(const OomCounts& counts, const MemoryGroup& group) {
  const auto found = std::find_if(counts.groups.begin(), counts.groups.end(),
                                  [&](const MemoryGroup& g) { return g.name == group.name; });
  return found == counts.groups.end() ? nullptr : &*found;
}

std::string rise(std::uint64_t before, std::uint64_t after) {
  return "its count of such kills rose from " + std::to_string(before) + " to " + std::to_string(after);
}

bool was_hit(const MemoryGroup& group, const OomCounts& before) {
  const MemoryGroup* then = same_group(before, group);
  return then && group.limit_hits > then->limit_hits;
}

// The lowest limit; with `hit`, of those that stopped an allocation meanwhile.
const MemoryGroup* narrowest(const OomCounts& before, const OomCounts& after, bool hit) {
  const MemoryGroup* found = nullptr;
  for (const MemoryGroup& group : after.groups)
    if (group.limit_bytes && (!hit || was_hit(group, before)) && (!found || *group.limit_bytes < *found->limit_bytes))
      found = &group;
  return found;
}

// Kernels do not count every kind of limit hit (6.18: not that of memory and swap together).
std::string limit_in_words(const MemoryGroup& killed_in, const OomCounts& before, const OomCounts& after) {
  const auto named = [&](const MemoryGroup& group) {
    return group.name == killed_in.name ? std::string("the group") : "group " + group.name;
  };
  if (const MemoryGroup* limit = narrowest(before, after, true))
    return ": " + named(*limit) + " may use " + bytes_in_words(*limit->limit_bytes);
  if (const MemoryGroup* limit = narrowest(before, after, false))
    return "; the narrowest limit is " + bytes_in_words(*limit->limit_bytes) + ", of " + named(*limit);
  return "; no group has a limit, so the whole machine was out of memory";
}

}  // namespace

// By strstr(), which reads many bytes at a time: this is done at every start.
std::optional<std::uint64_t> counter(const std::string& content, const std::string& key) {
  const std::string wanted = key + " ";
  for (const char* at = content.c_str(); (at = std::strstr(at, wanted.c_str())); ++at)
    if (at == content.c_str() || at[-1] == '\n') {
      const std::string_view behind = at + wanted.size();
      return number(behind.substr(0, behind.find('\n')));
    }
  return {};
}

std::optional<std::uint64_t> memory_limit(const std::string& content) {
  const auto bytes = number(content);
  return bytes && *bytes < kNoLimit ? bytes : std::nullopt;
}

std::string out_of_memory(const OomCounts& before, const OomCounts& after) {
  for (const MemoryGroup& group : after.groups) {
    const MemoryGroup* then = same_group(before, group);
    if (!then || group.kills <= then->kills) continue;
    return "the kernel killed processes for lack of memory in control group " + group.name + " (" +
           rise(then->kills, group.kills) + ")" + limit_in_words(group, before, after);
  }
  if (before.machine && after.machine && *after.machine > *before.machine)
    return "the kernel killed processes for lack of memory on this machine meanwhile (" +
           rise(*before.machine, *after.machine) + "), outside ddprun's own control group";
  return {};
}

std::string bytes_in_words(std::uint64_t bytes) {
  static constexpr const char* kUnits[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  char text[32];
  std::snprintf(text, sizeof text,
                value != static_cast<double>(static_cast<std::uint64_t>(value)) ? "%.1f %s" : "%.0f %s", value,
                kUnits[unit]);
  return text;
}

}  // namespace ddprun::agent

#include "agent/diagnosis/oom_count.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <sstream>

namespace ddprun::agent {
namespace {

// Above any machine's memory: version 1 writes "no limit" as the largest number of whole pages.
constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 62;

struct Mount {
  std::string root, folder;
};

std::optional<std::uint64_t> number(const std::string& text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data()) return {};
  return value;
}

// mountinfo writes blanks and backslashes as octal escapes such as \040.
std::string unescaped(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 3 >= text.size()) {
      out += text[i];
      continue;
    }
    out += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
    i += 3;
  }
  return out;
}

bool listed(const std::string& list, const std::string& word) {
  return ("," + list + ",").find("," + word + ",") != std::string::npos;
}

// The path of our memory group, and whether it is version 1's: a controller belongs to one version at a time.
std::optional<std::pair<std::string, bool>> own_group(const std::string& cgroup) {
  std::istringstream lines(cgroup);
  std::optional<std::pair<std::string, bool>> unified;
  for (std::string line; std::getline(lines, line);) {
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    if (listed(controllers, "memory")) return std::pair(path, true);
    if (line.starts_with("0::")) unified = std::pair(path, false);
  }
  return unified;
}

std::optional<Mount> mount_of(const std::string& mountinfo, bool version1) {
  std::istringstream lines(mountinfo);
  for (std::string line; std::getline(lines, line);) {
    const auto dash = line.find(" - cgroup");  // most lines are other file systems
    if (dash == std::string::npos) continue;
    std::istringstream fields(line), after(line.substr(dash + 3));
    std::string id, parent, device, root, folder, type, source, options;
    fields >> id >> parent >> device >> root >> folder;
    after >> type >> source >> options;
    if (version1 ? type == "cgroup" && listed(options, "memory") : type == "cgroup2")
      return Mount{unescaped(root), unescaped(folder)};
  }
  return {};
}

// A container may see its own group as the mount's root, with the name it has on the host.
std::string below_mount(const std::string& path, const std::string& root) {
  if (root == "/") return path == "/" ? "" : path;
  if (path == root || path.starts_with(root + "/")) return path.substr(root.size());
  return "";
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

std::vector<MemoryGroupFolder> memory_groups(const std::string& cgroup, const std::string& mountinfo) {
  const auto own = own_group(cgroup);
  const auto mount = own ? mount_of(mountinfo, own->second) : std::nullopt;
  if (!mount) return {};
  std::vector<MemoryGroupFolder> out;
  std::string path = below_mount(own->first, mount->root);
  for (; !path.empty(); path.erase(path.rfind('/'))) {
    if (path.front() != '/') break;
    out.push_back({mount->folder + path, path, own->second});
  }
  out.push_back({mount->folder, "/", own->second});
  return out;
}

std::optional<std::uint64_t> counter(const std::string& content, const std::string& key) {
  const std::string begin = key + " ";
  for (std::size_t at = 0; (at = content.find(begin, at)) != std::string::npos; at += begin.size())
    if (at == 0 || content[at - 1] == '\n') return number(content.substr(at + begin.size()));
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
    return "the kernel killed for memory in control group " + group.name + " (" + rise(then->kills, group.kills) + ")" +
           limit_in_words(group, before, after);
  }
  if (before.machine && after.machine && *after.machine > *before.machine)
    return "the kernel killed for memory on this machine meanwhile (" + rise(*before.machine, *after.machine) +
           "), outside ddprun's own control group";
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

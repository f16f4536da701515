#include "agent/process/control_groups.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "rendezvous/base/spelling.h"

namespace ddprun::agent {
namespace {

// mountinfo writes blanks and backslashes as octal escapes such as \040.
std::string unescaped(std::string_view text) {
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

bool in_list(std::string_view list, std::string_view word) {
  const std::vector<std::string> parts = split(list, ',');
  return std::find(parts.begin(), parts.end(), word) != parts.end();
}

// The path of our group for this controller, and whether it is version 1's: a controller belongs to one version at a
// time.
std::optional<std::pair<std::string, bool>> own_group(const std::string& controller, const std::string& cgroup) {
  std::optional<std::pair<std::string, bool>> unified;
  for (const std::string& line : split(cgroup, '\n')) {
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    if (in_list(controllers, controller) && !controllers.empty()) return std::pair(path, true);
    if (line.starts_with("0::")) unified = std::pair(path, false);
  }
  return unified;
}

// A container may see its own group as the mount's root, with the name it has on the host.
std::string below_mount(const std::string& path, const std::string& root) {
  if (root == "/") return path == "/" ? "" : path;
  if (path == root || path.starts_with(root + "/")) return path.substr(root.size());
  return "";
}

}  // namespace

std::vector<CgroupMount> cgroup_mounts(const std::string& controller, const std::string& mountinfo) {
  std::vector<CgroupMount> out;
  const std::string_view text = mountinfo;
  // Most lines are other file systems.
  for (std::size_t dash = 0; (dash = text.find(" - cgroup", dash)) != text.npos; ++dash) {
    const std::size_t begin = text.rfind('\n', dash) + 1;
    const auto before = words_in(text.substr(begin, dash - begin));  // id, parent, device, root, folder, ...
    const auto after = words_in(text.substr(dash + 3, text.find('\n', dash) - dash - 3));  // type, source, options
    if (before.size() < 5 || after.size() < 3) continue;
    if (controller.empty() ? after[0] == "cgroup2" : after[0] == "cgroup" && in_list(after[2], controller))
      out.push_back({unescaped(before[3]), unescaped(before[4])});
  }
  return out;
}

std::vector<ControlGroup> control_groups(const std::string& controller, const std::string& cgroup,
                                         const std::string& mountinfo) {
  const auto own = own_group(controller, cgroup);
  if (!own) return {};
  const auto mounts = cgroup_mounts(own->second ? controller : "", mountinfo);
  if (mounts.empty()) return {};
  const CgroupMount& mount = mounts.front();
  std::vector<ControlGroup> out;
  std::string path = below_mount(own->first, mount.root);
  for (; !path.empty(); path.erase(path.rfind('/'))) {
    if (path.front() != '/') break;
    out.push_back({mount.folder + path, path, own->second});
  }
  out.push_back({mount.folder, "/", own->second});
  return out;
}

std::string unified_path(const std::string& cgroup) {
  const auto own = own_group("", cgroup);
  return own ? own->first : "";
}

}  // namespace ddprun::agent

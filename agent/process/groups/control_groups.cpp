#include "agent/process/groups/control_groups.h"

#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

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

// Takes the text up to the separator, and the separator, off its front.
std::string_view take_until(char separator, std::string_view& text) {
  const std::string_view part = text.substr(0, text.find(separator));
  text.remove_prefix(part.size() == text.size() ? text.size() : part.size() + 1);
  return part;
}

bool in_list(std::string_view list, std::string_view word) {
  while (!list.empty())
    if (take_until(',', list) == word) return true;
  return false;
}

// The path of our group for this controller, and whether it is version 1's: a controller belongs to one version at a
// time.
std::optional<std::pair<std::string, bool>> own_group(std::string_view controller, std::string_view cgroup) {
  std::optional<std::pair<std::string, bool>> unified;
  while (!cgroup.empty()) {
    std::string_view path = take_until('\n', cgroup);
    const std::string_view hierarchy = take_until(':', path), controllers = take_until(':', path);
    if (!controllers.empty() && in_list(controllers, controller)) return std::pair(std::string(path), true);
    if (hierarchy == "0" && controllers.empty() && !path.empty()) unified = std::pair(std::string(path), false);
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

// A line: id, parent, device, root, folder, options, optional fields, "-", type, source, the file system's options.
std::vector<CgroupMount> cgroup_mounts(const std::string& controller, const std::string& mountinfo) {
  constexpr const char* kMark = " - cgroup";  // most lines are other file systems: a hundred in a container
  std::vector<CgroupMount> out;
  const std::string_view text = mountinfo;
  for (const char* at = mountinfo.c_str(); (at = std::strstr(at, kMark)); ++at) {
    const auto dash = static_cast<std::size_t>(at - mountinfo.c_str());
    std::string_view behind = text.substr(dash + 3, text.find('\n', dash) - dash - 3);
    const std::string_view type = take_until(' ', behind);
    take_until(' ', behind);  // the source
    if (controller.empty() ? type != "cgroup2" : type != "cgroup" || !in_list(behind, controller)) continue;
    const std::size_t begin = text.rfind('\n', dash) + 1;
    std::string_view before = text.substr(begin, dash - begin);
    for (int skipped = 0; skipped < 3; ++skipped) take_until(' ', before);
    const std::string_view root = take_until(' ', before), folder = take_until(' ', before);
    if (!folder.empty()) out.push_back({unescaped(root), unescaped(folder)});
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

#include "agent/diagnosis/python_modules.h"

#include <algorithm>
#include <sstream>

namespace ddprun::agent {
namespace {

constexpr const char* kPython = "python3";

std::string folder_of(const std::string& path) { return path.substr(0, path.find_last_of('/')); }
std::string name_of(const std::string& path) { return path.substr(path.find_last_of('/') + 1); }

// "include-system-site-packages = true"
bool sees_system(const std::string& venv_config) {
  std::istringstream lines(venv_config);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("include-system-site-packages") && line.find("true") != line.npos) return true;
  return false;
}

// "python3.11", of the one at this path; of a name without a version, all that have a folder there.
std::vector<std::string> versions(const std::string& python, const std::string& prefix, const PythonFiles& files) {
  if (name_of(python).starts_with("python3.")) return {name_of(python)};
  std::vector<std::string> out;
  for (const std::string& name : files.names(prefix + "/lib"))
    if (name.starts_with("python3.")) out.push_back(name);
  return out;
}

// Of installed modules, first, and of the standard library.
struct Folders {
  std::vector<std::string> installed, standard;
};

Folders searched(const std::string& python, const PythonFiles& files) {
  Folders out;
  const std::string real = files.without_links(python);
  const std::string own = folder_of(folder_of(python)), base = folder_of(folder_of(real));
  const auto add = [&](const std::string& prefix, const std::string& version) {
    for (const char* lib : {"/lib/", "/lib64/"}) out.installed.push_back(prefix + lib + version + "/site-packages");
  };
  const std::string venv = files.content(own + "/pyvenv.cfg");
  if (!venv.empty())
    for (const std::string& version : versions(kPython, own, files)) add(own, version);
  for (const std::string& version : versions(real, base, files)) {
    out.standard.insert(out.standard.end(), {base + "/lib/" + version, base + "/lib/" + version + "/lib-dynload"});
    if (!venv.empty() && !sees_system(venv)) continue;
    add(base, version);
    for (const std::string& folder : {base + "/local/lib/" + version, base + "/lib/" + version, base + "/lib/python3"})
      out.installed.push_back(folder + "/dist-packages");
    if (!files.home.empty()) out.installed.push_back(files.home + "/.local/lib/" + version + "/site-packages");
  }
  return out;
}

// As a package, or as a file "name.py", "name.abi3.so".
bool is_in(const std::vector<std::string>& names, const std::string& name, const std::string& folder,
           const PythonFiles& files) {
  return std::any_of(names.begin(), names.end(), [&](const std::string& entry) {
    if (entry == name) return !files.names(folder + "/" + name).empty();
    return entry == name + ".py" || (entry.starts_with(name + ".") && entry.ends_with(".so"));
  });
}

bool is_below(std::string folder, const std::string& module, const PythonFiles& files) {
  std::istringstream parts(module);
  for (std::string part; std::getline(parts, part, '.'); folder += "/" + part)
    if (part.empty() || !is_in(files.names(folder), part, folder, files)) return false;
  return !module.empty();
}

bool is_python(const std::string& path) { return name_of(path).starts_with("python"); }

}  // namespace

std::vector<std::string> folders_of(const std::string& path) {
  std::vector<std::string> out;
  std::istringstream folders(path);
  for (std::string folder; std::getline(folders, folder, ':');) out.push_back(folder.empty() ? "." : folder);
  return out;
}

std::optional<bool> has_module(const std::string& python, const std::string& module, const PythonFiles& files) {
  const Folders all = searched(python, files);
  const auto has = [&](const std::string& folder) { return is_below(folder, module, files); };
  if (std::any_of(all.installed.begin(), all.installed.end(), has)) return true;
  if (std::any_of(all.standard.begin(), all.standard.end(), has)) return true;
  const auto is_there = [&](const std::string& folder) { return !files.names(folder).empty(); };
  if (std::any_of(all.standard.begin(), all.standard.end(), is_there)) return false;
  return std::any_of(all.installed.begin(), all.installed.end(), is_there) ? std::optional(false) : std::nullopt;
}

std::string python_of(const std::string& program, const std::string& head, const std::string& path,
                      const PythonFiles& files) {
  if (is_python(program)) return program;
  if (!head.starts_with("#!")) return {};
  std::istringstream words(head.substr(2, head.find('\n') - 2));
  std::string word;
  while (words >> word && (name_of(word) == "env" || word.starts_with('-'))) {
  }
  if (!is_python(word)) return {};
  if (word.find('/') != word.npos) return word;
  for (const std::string& folder : folders_of(path))
    if (!files.without_links(folder + "/" + word).empty()) return folder + "/" + word;
  return {};
}

std::string python_with(const std::string& module, const std::vector<std::string>& folders,
                        const std::string& other_than, const PythonFiles& files) {
  for (const std::string& folder : folders) {
    const std::string python = folder + "/" + kPython;
    if (python == other_than || files.without_links(python).empty()) continue;
    if (has_module(python, module, files) == true) return python;
  }
  return {};
}

}  // namespace ddprun::agent

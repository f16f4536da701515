#include "launcher/plan/interpreter.h"

#include <filesystem>
#include <utility>

namespace ddprun::launcher {
namespace {

constexpr const char* kPython = "python3";
constexpr const char* kTorch = "torch";

std::string folder_of(const std::string& path) { return path.substr(0, path.find_last_of('/')); }

std::string without_last_slashes(std::string folder) {
  while (folder.size() > 1 && folder.ends_with('/')) folder.pop_back();
  return folder;
}

Interpreter first_in_path(const std::string& name, const std::string& why, const SearchContext& here) {
  if (const auto found = in_path(name, here)) return {*found, why};
  return {"", "there is no " + name + " in PATH"};
}

// What `python3` is there, if it belongs to the environment that is active: a variable alone may be left over.
std::optional<Interpreter> active(const SearchContext& here) {
  const std::string virtual_one = here.variable("VIRTUAL_ENV"), conda = here.variable("CONDA_PREFIX");
  if (virtual_one.empty() && conda.empty()) return {};
  const auto first = in_path(kPython, here);
  if (!first) return {};
  const std::string folder = without_last_slashes(folder_of(*first));
  const auto is_of = [&](const std::string& environment) {
    return !environment.empty() && folder == without_last_slashes(environment) + "/bin";
  };
  if (is_of(virtual_one)) return Interpreter{*first, "of the active virtual environment"};
  const bool is_base = here.variable("CONDA_DEFAULT_ENV") == "base";
  if (is_of(conda) && !is_base) return Interpreter{*first, "of the active conda environment"};
  return {};
}

// A link elsewhere, such as that of `uv tool install` in ~/.local/bin, does not choose the environment it leads to.
std::optional<Interpreter> of_own_environment(const SearchContext& here) {
  const std::string called = here.called();
  if (!has_slash(called)) return {};
  const std::string bin = folder_of(called), environment = folder_of(bin), python = bin + "/" + kPython;
  std::string kind;
  if (here.kind_of(environment + "/pyvenv.cfg").exists)
    kind = "virtual";
  else if (here.kind_of(environment + "/conda-meta").folder)
    kind = "conda";
  if (kind.empty() || !is_program(here.kind_of(python))) return {};
  return Interpreter{python, "of the " + kind + " environment that ddprun is in"};
}

// <tree> of <tree>/build/*/bin; empty: it is no such folder.
std::string source_tree(const std::string& folder) {
  const std::filesystem::path path = folder;
  if (path.filename() != "bin" || path.parent_path().parent_path().filename() != "build") return {};
  return path.parent_path().parent_path().parent_path().string();
}

std::optional<Interpreter> of_source_tree(const SearchContext& here) {
  const std::string tree = source_tree(here.own_folder);
  if (tree.empty() || !here.python_files) return {};
  const std::string python = tree + "/.venv/bin/" + kPython;
  if (!is_program(here.kind_of(python))) return {};
  const agent::PythonFiles files = here.python_files();
  if (const auto first = in_path(kPython, here)) {
    const auto has = agent::has_module(*first, kTorch, files);
    if (has == true || (!has && agent::has_module(python, kTorch, files) != true)) return {};
  }
  return Interpreter{python, "of ddprun's source tree, as PATH's python3 has no torch"};
}

}  // namespace

bool has_slash(const std::string& word) { return word.find('/') != word.npos; }
bool is_program(const FileKind& kind) { return kind.exists && !kind.folder && kind.executable; }

std::optional<std::string> in_path(const std::string& name, const SearchContext& here) {
  for (const std::string& folder : agent::folders_of(here.path)) {
    std::string candidate = folder + "/" + name;
    if (is_program(here.kind_of(candidate))) return candidate;
  }
  return {};
}

std::string called_path(const std::string& word, const std::string& folder, const SearchContext& here,
                        const std::function<bool(const std::string&)>& is_own) {
  const std::string found = has_slash(word) ? word : in_path(word, here).value_or("");
  if (found.empty() || !is_own(found)) return {};
  return (std::filesystem::path(folder) / found).lexically_normal().string();
}

Interpreter find_interpreter(const SearchContext& here) {
  const std::string& named = here.python_exec;
  if (has_slash(named)) return {named, "by PYTHON_EXEC"};
  if (!named.empty()) return first_in_path(named, "by PYTHON_EXEC", here);
  for (const auto look : {active, of_own_environment, of_source_tree})
    if (auto found = look(here)) return *std::move(found);
  return first_in_path(kPython, "the first one in PATH", here);
}

std::string described(const Interpreter& interpreter) {
  const std::string path = interpreter.path.empty() ? "none: " : interpreter.path + ", ";
  return "Python: " + path + interpreter.why + ".";
}

}  // namespace ddprun::launcher

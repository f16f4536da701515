#include "launcher/program.h"

#include <optional>
#include <sstream>

#include "rendezvous/base/error.h"

namespace ddprun::launcher {
namespace {

constexpr const char* kPython = "python3";
constexpr const char* kTrainer = "train";

bool has_slash(const std::string& word) { return word.find('/') != std::string::npos; }
bool is_program(const FileKind& kind) { return kind.exists && !kind.folder && kind.executable; }
bool ends_in_py(const std::string& word) { return word.ends_with(".py"); }

std::optional<std::string> in_path(const std::string& name, const SearchContext& here) {
  std::istringstream folders(here.path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string candidate = (folder.empty() ? "." : folder) + "/" + name;
    if (is_program(here.kind_of(candidate))) return candidate;
  }
  return {};
}

std::optional<std::string> in_path_or_beside(const std::string& name, const SearchContext& here) {
  if (auto found = in_path(name, here)) return found;
  const std::string beside = here.own_folder + "/" + name;
  if (is_program(here.kind_of(beside))) return beside;
  return {};
}

// A path that must exist and not be a folder.
FileKind must_be_file(const std::string& path, const SearchContext& here) {
  const FileKind kind = here.kind_of(path);
  if (!kind.exists) throw UsageError("cannot start " + path, "there is no such file", "Check the path of the program.");
  if (kind.folder) throw UsageError("cannot start " + path, "it is a folder", "Name the program inside it.");
  return kind;
}

std::string python(const SearchContext& here) {
  const Interpreter found = find_interpreter(here);
  if (!found.path.empty()) {
    if (has_slash(found.path)) must_be_file(found.path, here);
    return found.path;
  }
  throw UsageError("cannot start Python", found.why,
                   "Set PYTHON_EXEC to the interpreter, or pass --no-python for a program that is not Python.");
}

Program with_arguments(const std::string& path, std::vector<std::string> argv, const Config& config) {
  argv.insert(argv.end(), config.program.begin() + 1, config.program.end());
  return {path, std::move(argv)};
}

[[noreturn]] void not_found(const std::string& word) {
  throw UsageError("cannot start " + word, "it is neither a file here, nor in PATH, nor beside ddprun",
                   word == kTrainer
                       ? "The trainer train comes with a build of ddprun on LibTorch, or with the Debian package "
                         "ddprun-train: install it, or give the path of a program of yours."
                       : "Give its path, such as ./" + word + ".");
}

// "virtual", "conda", or empty where ddprun is in the bin folder of neither.
std::string own_environment_kind(const SearchContext& here) {
  const std::string environment = here.own_folder.substr(0, here.own_folder.rfind('/'));
  if (here.kind_of(environment + "/pyvenv.cfg").exists) return "virtual";
  return here.kind_of(environment + "/conda-meta").folder ? "conda" : "";
}

Interpreter first_in_path(const std::string& name, const std::string& why, const SearchContext& here) {
  if (const auto found = in_path(name, here)) return {*found, why};
  return {"", "there is no " + name + " in PATH"};
}

}  // namespace

Interpreter find_interpreter(const SearchContext& here) {
  const std::string& named = here.python_exec;
  if (has_slash(named)) return {named, "by PYTHON_EXEC"};
  if (!named.empty()) return first_in_path(named, "by PYTHON_EXEC", here);
  const std::string beside = here.own_folder + "/" + kPython;
  const std::string kind = own_environment_kind(here);
  if (!kind.empty() && is_program(here.kind_of(beside)))
    return {beside, "of the " + kind + " environment that ddprun is in"};
  return first_in_path(kPython, "the first one in PATH", here);
}

std::string described(const Interpreter& interpreter) {
  const std::string path = interpreter.path.empty() ? "none: " : interpreter.path + ", ";
  return "Python: " + path + interpreter.why + ".";
}

Program find_program(const Config& config, const SearchContext& here) {
  const std::string& word = config.program.front();
  const auto by_python = [&](std::vector<std::string> words) {
    const std::string interpreter = python(here);
    words.insert(words.begin(), {interpreter, "-u"});
    Program program = with_arguments(interpreter, std::move(words), config);
    program.by_python = true;
    return program;
  };
  if (config.run_path) {
    must_be_file(word, here);
    return by_python({word});
  }
  if (config.module) return by_python({"-m", word});

  if (has_slash(word)) {
    const FileKind kind = must_be_file(word, here);
    if (config.no_python && !kind.executable)
      throw UsageError("cannot start " + word, "it has no run permission",
                       "Run chmod +x on it, or leave out --no-python.");
    const bool script = !config.no_python && (ends_in_py(word) || !kind.executable);
    return script ? by_python({word}) : with_arguments(word, {word}, config);
  }
  const FileKind kind = here.kind_of(word);
  if (!config.no_python && kind.exists && !kind.folder && (ends_in_py(word) || !kind.executable))
    return by_python({word});
  if (const auto found = in_path_or_beside(word, here)) return with_arguments(*found, {word}, config);
  not_found(word);
}

}  // namespace ddprun::launcher

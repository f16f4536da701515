#include "launcher/plan/program.h"

#include <optional>
#include <string_view>

#include "launcher/config/command_names.h"
#include "launcher/plan/first_line.h"
#include "rendezvous/base/error.h"
#include "rendezvous/base/spelling.h"
#include "rendezvous/base/suggestion.h"

namespace ddprun::launcher {
namespace {

constexpr const char* kTrainer = "train";
constexpr std::string_view kScript = ".py";
constexpr std::size_t kCompared = 3;  // letters, at least: of two short names one is soon like the other

// An archive or compiled file with run permission may name its Python in a first line; the kernel cannot start others.
bool needs_python(const std::string& word, const FileKind& kind, const SearchContext& here) {
  if (!kind.executable || word.ends_with(".py")) return true;
  return (word.ends_with(".pyz") || word.ends_with(".pyc")) && !here.first_bytes(word).starts_with("#!");
}

// Of a file without run permission, which only Python could start: what its first line names instead.
std::vector<std::string> other_interpreter(const std::string& word, const FileKind& kind, const SearchContext& here) {
  const bool may_be = kind.exists && !kind.folder && !kind.executable && !word.ends_with(".py");
  return may_be ? foreign_interpreter(here.first_bytes(word)) : std::vector<std::string>();
}

bool is_python_folder(const std::string& path, const SearchContext& here) {
  return here.kind_of(path).folder && here.kind_of(path + "/__main__.py").exists;
}

std::optional<std::string> in_path_or_beside(const std::string& name, const SearchContext& here) {
  if (auto found = in_path(name, here)) return found;
  const std::string beside = here.own_folder + "/" + name;
  if (is_program(here.kind_of(beside))) return beside;
  return {};
}

// Whether a path can stand for the program.
bool can_be_meant(const std::string& path, const SearchContext& here) {
  const FileKind kind = here.kind_of(path);
  return path.ends_with(kScript) && !kind.folder ? kind.exists : is_program(kind) || is_python_folder(path, here);
}

// Names of a folder that `typed` may be meant for; of scripts without their .py, which is the same in all.
std::vector<std::string> names_to_compare(const std::string& typed, const std::vector<std::string>& names) {
  const std::string_view ending = typed.ends_with(kScript) ? kScript : "";
  std::vector<std::string> out;
  for (const std::string& name : names)
    if (name.ends_with(ending) && name != typed && name.size() >= ending.size() + kCompared &&
        name.starts_with('.') == typed.starts_with('.'))
      out.push_back(name.substr(0, name.size() - ending.size()));
  return out;
}

// The program in the same folder that was probably meant: " Did you mean './train.py'?", or nothing.
std::string near_program(const std::string& path, const SearchContext& here) {
  const std::size_t name = path.rfind('/') + 1;  // 0 where there is no slash
  const std::string folder = path.substr(0, name), typed = path.substr(name);
  const std::string ending = typed.ends_with(kScript) ? std::string(kScript) : "";
  if (typed.size() < ending.size() + kCompared) return {};
  const std::string stem = typed.substr(0, typed.size() - ending.size());
  auto names = names_to_compare(typed, here.names_in(folder.empty() ? "." : folder));
  for (std::string near = nearest(stem, names); !near.empty(); near = nearest(stem, names)) {
    const std::string meant = near + ending;
    const bool script = meant.ends_with(kScript);
    if (can_be_meant(folder + meant, here)) return did_you_mean((folder.empty() && !script ? "./" : folder) + meant);
    std::erase(names, near);
  }
  return {};
}

// A path that must exist and not be a folder.
FileKind must_be_file(const std::string& path, const SearchContext& here) {
  const FileKind kind = here.kind_of(path);
  if (!kind.exists) {
    const std::string hint = near_program(path, here);
    throw UsageError("cannot start " + path, "there is no such file",
                     hint.empty() ? "Check the path of the program." : hint.substr(1));
  }
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

[[noreturn]] void not_runnable(const std::string& word, const std::vector<std::string>& interpreter) {
  std::string command = "ddprun";
  for (const std::string& part : interpreter) command += " " + shell_word(part);
  const std::string file = shell_word(word);
  const std::string path = has_slash(word) ? "" : " and start " + shell_word("./" + word);
  throw UsageError("cannot start " + word,
                   "it has no run permission, and by its first line it is for " + interpreter.front() + ", not Python",
                   "Run chmod +x " + file + path + ", or write " + command + " " + file + ", or ddprun --run-path " +
                       file + " if it is Python.");
}

std::string remedy_for_unknown(const std::string& word, const SearchContext& here) {
  if (word == kTrainer)
    return "The trainer train comes with a build of ddprun on LibTorch, or with the Debian package ddprun-train: "
           "install it, or give the path of a program of yours.";
  std::vector<std::string> known = command_names();
  known.emplace_back(kTrainer);
  const std::string hint = did_you_mean(word, known), by_path = shell_word("./" + word);
  if (const std::string file = near_program(word, here); hint.empty() && !file.empty()) return file.substr(1);
  return hint.empty() ? "Give its path, such as " + by_path + "."
                      : hint.substr(1) + " A program of yours is given by its path, such as " + by_path + ".";
}

[[noreturn]] void not_found(const std::string& word, const Config& config, const FileKind& kind,
                            const SearchContext& here) {
  if (kind.folder)
    throw UsageError("cannot start " + word,
                     "it is a folder" + std::string(config.no_python ? "" : " without a __main__.py"),
                     "Name the program inside it.");
  if (kind.exists)
    throw UsageError("cannot start " + word, "it is not in PATH, and a file here is given by its path",
                     "Write " + shell_word("./" + word) + ".");
  if (config.watch != WatchMode::off && (word == "see" || word == "act" || word == "off"))
    throw UsageError("cannot start " + word, "it is no program, and --watch takes its mode behind a '='",
                     "Write --watch=" + word + ".");
  if (word == "-")
    throw UsageError("cannot start -", "a program that comes by stdin reaches one worker only",
                     "Write it into a file.");
  throw UsageError("cannot start " + word, "it is neither a file here, nor in PATH, nor beside ddprun",
                   remedy_for_unknown(word, here));
}

}  // namespace

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
    if (!is_python_folder(word, here)) must_be_file(word, here);
    return by_python({word});
  }
  if (config.module) return by_python({"-m", word});

  if (has_slash(word)) {
    if (!config.no_python && is_python_folder(word, here)) return by_python({word});
    const FileKind kind = must_be_file(word, here);
    if (const auto other = other_interpreter(word, kind, here); !other.empty()) not_runnable(word, other);
    if (config.no_python && !kind.executable)
      throw UsageError("cannot start " + word, "it has no run permission",
                       "Run chmod +x on it, or leave out --no-python.");
    const bool script = !config.no_python && needs_python(word, kind, here);
    return script ? by_python({word}) : with_arguments(word, {word}, config);
  }
  const FileKind kind = here.kind_of(word);
  const std::vector<std::string> other = other_interpreter(word, kind, here);
  const bool for_python = !config.no_python && other.empty() && kind.exists && !kind.folder;
  if (for_python && needs_python(word, kind, here)) return by_python({word});
  if (const auto found = in_path_or_beside(word, here)) return with_arguments(*found, {word}, config);
  if (!config.no_python && is_python_folder(word, here)) return by_python({word});
  if (!other.empty()) not_runnable(word, other);
  not_found(word, config, kind, here);
}

}  // namespace ddprun::launcher

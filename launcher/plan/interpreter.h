// Finds the Python that runs scripts.
//
// Pure: from functions that look at files.
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "agent/diagnosis/python_modules.h"

namespace ddprun::launcher {

// The kind of file at a path.
struct FileKind {
  bool exists = false;
  bool folder = false;
  bool executable = false;
};

// Where programs are searched. The functions read the disk, and are called only where something depends on it.
struct SearchContext {
  std::string path;         // $PATH
  std::string own_folder;   // of ddprun's binary, without links
  std::string python_exec;  // $PYTHON_EXEC, or empty
  std::function<FileKind(const std::string&)> kind_of;
  std::function<std::string()> called = [] {
    return std::string();
  };  // the path by which ddprun was called, links kept
  std::function<std::string(const char* name)> variable = [](const char*) { return std::string(); };
  std::function<std::string(const std::string& path)> first_bytes = [](const std::string&) { return std::string(); };
  std::function<agent::PythonFiles()> python_files = {};  // empty: none can be looked at
  std::function<std::vector<std::string>(const std::string& folder)> names_in = [](const std::string&) {
    return std::vector<std::string>();
  };  // 50,000 at most
};

// The Python that runs scripts.
struct Interpreter {
  std::string path;  // empty: there is none
  std::string why;   // "by PYTHON_EXEC"; of none: "there is no python3 in PATH"
};

// $PYTHON_EXEC; else that of the active environment, which is PATH's first (conda's base counts as the machine's); else
// that of the environment in whose bin folder ddprun was called, as a script of that environment would get; else, for a
// ddprun in <tree>/build/*/bin, that of <tree>/.venv if PATH's first has no torch; else PATH's first.
Interpreter find_interpreter(const SearchContext& context);

// "Python: /venv/bin/python3, of the virtual environment that ddprun is in."
std::string described(const Interpreter& interpreter);

// The path by which a program was called: `word` is its argv[0], looked up in context.path where it has no slash, and
// below `folder` where it is relative. Links are kept. Empty if `is_own` says of what is found that it is another
// program.
std::string called_path(const std::string& word, const std::string& folder, const SearchContext& context,
                        const std::function<bool(const std::string&)>& is_own);

// The first program of that name in PATH.
std::optional<std::string> in_path(const std::string& name, const SearchContext& context);
bool is_program(const FileKind& kind);
bool has_slash(const std::string& word);

}  // namespace ddprun::launcher

// Whether a Python has a module, told from the folders that it searches, without starting it.
//
// Pure: from functions that look at folders and files. What .pth files add, PYTHONPATH and zip files is not seen.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::agent {

struct PythonFiles {
  std::function<std::string(const std::string& path)> without_links = {};         // empty: nothing is there
  std::function<std::vector<std::string>(const std::string& folder)> names = {};  // none where there is no such folder
  std::function<std::string(const std::string& path)> content = {};               // of a small file; empty: none
  std::string home = {};                                                          // the user's; empty: unknown
};

// Empty if it cannot be told, as of a script that starts another Python. `module` as in "No module named 'a.b'".
std::optional<bool> has_module(const std::string& python, const std::string& module, const PythonFiles& files);

// The Python that ran a program: the file that is exec'd itself, or the one that the first line of its `head` names,
// looked up in `path` after /usr/bin/env. Empty if it is none.
std::string python_of(const std::string& program, const std::string& head, const std::string& path,
                      const PythonFiles& files);

// The first of the `folders` with a python3 that is not `other_than` and has the module: that python3. Empty: none.
std::string python_with(const std::string& module, const std::vector<std::string>& folders,
                        const std::string& other_than, const PythonFiles& files);

// The folders of a variable such as PATH.
std::vector<std::string> folders_of(const std::string& path);

}  // namespace ddprun::agent

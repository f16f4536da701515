#include "agent/diagnosis/python_modules.h"

#include "tests/support/test.h"

namespace {

// A machine with files at these paths, some of them links.
struct PythonDisk {
  std::map<std::string, std::string> content;
  std::map<std::string, std::string> links = {};

  PythonFiles files() const {
    PythonFiles out;
    out.without_links = [this](const std::string& path) {
      const auto link = links.find(path);
      return link != links.end() ? link->second : content.contains(path) ? path : "";
    };
    out.names = [this](const std::string& folder) {
      std::set<std::string> names;
      for (const auto& [path, text] : content)
        if (path.starts_with(folder + "/")) {
          const std::string below = path.substr(folder.size() + 1);
          names.insert(below.substr(0, below.find('/')));
        }
      return Words(names.begin(), names.end());
    };
    out.content = [this](const std::string& path) { return content.contains(path) ? content.at(path) : ""; };
    out.home = "/home/me";
    return out;
  }
};

// Debian's Python, and a virtual environment of it.
PythonDisk debian() {
  return {{{"/usr/bin/python3.11", ""},
           {"/usr/lib/python3.11/os.py", ""},
           {"/usr/lib/python3.11/lib-dynload/_ssl.cpython-311-x86_64-linux-gnu.so", ""},
           {"/usr/lib/python3/dist-packages/yaml/__init__.py", ""},
           {"/usr/local/lib/python3.11/dist-packages/torch/nn/__init__.py", ""},
           {"/home/me/.local/lib/python3.11/site-packages/six.py", ""},
           {"/venv/pyvenv.cfg", "home = /usr/bin\ninclude-system-site-packages = false\n"},
           {"/venv/lib/python3.11/site-packages/numpy/__init__.py", ""}},
          {{"/usr/bin/python3", "/usr/bin/python3.11"}, {"/venv/bin/python3", "/usr/bin/python3.11"}}};
}

}  // namespace

TEST_CASE("a Python's modules are found in the folders that it searches", "[python_modules]") {
  PythonDisk disk = debian();
  const PythonFiles files = disk.files();
  for (const char* module : {"os", "_ssl", "yaml", "torch", "torch.nn", "six"}) {
    INFO(module);
    CHECK(has_module("/usr/bin/python3", module, files) == true);
  }
  for (const char* module : {"numpy", "torch.nonsuch", "tor", "", "."}) {
    INFO(module);
    CHECK(has_module("/usr/bin/python3", module, files) == false);
  }
  CHECK(has_module("/venv/bin/python3", "numpy", files) == true);
  CHECK(has_module("/venv/bin/python3", "os", files) == true);
  CHECK(has_module("/venv/bin/python3", "torch", files) == false);
  CHECK(has_module("/venv/bin/python3", "six", files) == false);
  disk.content["/venv/pyvenv.cfg"] = "include-system-site-packages = true\n";
  CHECK(has_module("/venv/bin/python3", "torch", disk.files()) == true);
}

TEST_CASE("of a Python whose folders are elsewhere nothing is claimed", "[python_modules]") {
  const PythonDisk disk{{{"/home/me/.pyenv/shims/python3", "#!/usr/bin/env bash"}}};
  CHECK_FALSE(has_module("/home/me/.pyenv/shims/python3", "torch", disk.files()).has_value());
  CHECK_FALSE(has_module("/gone/python3", "torch", disk.files()).has_value());
}

TEST_CASE("the Python that ran a program is the program, or named in its first line", "[python_modules]") {
  const PythonDisk disk = debian();
  const PythonFiles files = disk.files();
  const auto of = [&](const std::string& program, const std::string& head) {
    return python_of(program, head, "/bin:/venv/bin:/usr/bin", files);
  };
  CHECK(of("/usr/bin/python3",
           "\x7f"
           "ELF") == "/usr/bin/python3");
  CHECK(of("/venv/bin/accelerate", "#!/venv/bin/python3\nimport sys") == "/venv/bin/python3");
  CHECK(of("/x/tool", "#! /usr/bin/env python3\n") == "/venv/bin/python3");
  CHECK(of("/x/tool", "#!/usr/bin/env -S python3 -u\n") == "/venv/bin/python3");
  CHECK(of("/x/tool", "#!/usr/bin/env python9\n").empty());
  CHECK(of("/bin/sh",
           "\x7f"
           "ELF")
            .empty());
  CHECK(of("/x/run", "#!/bin/sh\n").empty());
  CHECK(of("/x/run", "#!").empty());
}

TEST_CASE("another Python with the module is the first one of these folders that has it", "[python_modules]") {
  const PythonDisk disk = debian();
  const auto other = [files = disk.files()](const std::string& module, const std::string& ran) {
    return python_with(module, {"/none/bin", "/usr/bin", "/venv/bin"}, ran, files);
  };
  CHECK(other("numpy", "/usr/bin/python3") == "/venv/bin/python3");
  CHECK(other("torch", "/venv/bin/python3") == "/usr/bin/python3");
  CHECK(other("os", "/usr/bin/python3") == "/venv/bin/python3");
  CHECK(other("torch", "/usr/bin/python3").empty());
  CHECK(other("nonsuch", "/usr/bin/python3").empty());
}

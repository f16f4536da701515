#include "launcher/plan/program.h"

#include "launcher/plan/search_context.h"
#include "rendezvous/base/error.h"
#include "tests/support/test.h"

namespace {

const FileKind kScript{true, false, false}, kProgram{true, false, true}, kFolder{true, true, true};

// A small file system: PATH is /bin, ddprun lies in /opt.
SearchContext files(std::map<std::string, FileKind> tree, const std::string& python_exec = "") {
  tree.emplace("/bin/python3", kProgram);
  return {"/bin", "/opt", python_exec, [tree](const std::string& path) {
            const auto found = tree.find(path);
            return found == tree.end() ? FileKind{} : found->second;
          }};
}

Config config_of(std::vector<std::string> words) {
  Config config;
  config.program = std::move(words);
  return config;
}

std::string refusal(const Config& config, const SearchContext& here) {
  return error_text<UsageError>([&] { find_program(config, here); });
}

}  // namespace

TEST_CASE("a .py file here is given to python3 -u with its arguments", "[program]") {
  const Program program = find_program(config_of({"train.py", "--lr", "1"}), files({{"train.py", kProgram}}));
  CHECK(program.path == "/bin/python3");
  CHECK(program.argv == Words{"/bin/python3", "-u", "train.py", "--lr", "1"});
}

TEST_CASE("a ddprun in an environment's bin folder takes that environment's Python, as torchrun does there",
          "[program]") {
  const auto python = [](std::map<std::string, FileKind> tree, const std::string& python_exec = "") {
    SearchContext here = files(std::move(tree), python_exec);
    here.called = [] { return "/venv/bin/ddprun"; };
    return described(find_interpreter(here));
  };
  const FileKind file{true, false, false};
  const std::pair<const std::string, FileKind> own{"/venv/bin/python3", kProgram}, mark{"/venv/pyvenv.cfg", file};
  CHECK(python({own, mark}) == "Python: /venv/bin/python3, of the virtual environment that ddprun is in.");
  CHECK(python({own, {"/venv/conda-meta", kFolder}}) ==
        "Python: /venv/bin/python3, of the conda environment that ddprun is in.");
  CHECK(python({own, mark, {"/bin/py", kProgram}}, "py") == "Python: /bin/py, by PYTHON_EXEC.");
  CHECK(python({own, mark}, "/v/py") == "Python: /v/py, by PYTHON_EXEC.");
  CHECK(python({own}) == "Python: /bin/python3, the first one in PATH.");   // as in /usr/bin
  CHECK(python({mark}) == "Python: /bin/python3, the first one in PATH.");  // an environment without one
  CHECK(python({{"/bin/python3", kScript}}) == "Python: none: there is no python3 in PATH.");
}

TEST_CASE("scripts, modules and --run-path get the Python of ddprun's environment", "[program]") {
  SearchContext here = files({{"a.py", kScript}, {"/opt/bin/python3", kProgram}, {"/opt/pyvenv.cfg", kScript}});
  here.called = [] { return "/opt/bin/ddprun"; };
  Config config = config_of({"a.py"});
  CHECK(find_program(config, here).argv == Words{"/opt/bin/python3", "-u", "a.py"});
  CHECK(find_program(config, here).by_python);
  config.run_path = true;
  CHECK(find_program(config, here).path == "/opt/bin/python3");
  config.run_path = false;
  config.module = true;
  CHECK(find_program(config, here).path == "/opt/bin/python3");
}

namespace {

const FileKind kFile{true, false, false};

// With these variables, called by this path.
SearchContext called_in(SearchContext here, std::map<std::string, std::string> variables, const std::string& called) {
  here.variable = [variables = std::move(variables)](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? "" : found->second;
  };
  here.called = [called] { return called; };
  return here;
}

std::string chosen(const SearchContext& here) { return described(find_interpreter(here)); }

}  // namespace

TEST_CASE("the active environment's Python goes before that of the environment that ddprun is in", "[program]") {
  SearchContext here = files({{"/venv/bin/python3", kProgram},
                              {"/venv/pyvenv.cfg", kFile},
                              {"/own/bin/python3", kProgram},
                              {"/own/pyvenv.cfg", kFile}});
  here.path = "/venv/bin:/bin";
  const std::string ddprun = "/own/bin/ddprun";
  for (const char* folder : {"/venv", "/venv/"})
    CHECK(chosen(called_in(here, {{"VIRTUAL_ENV", folder}}, ddprun)) ==
          "Python: /venv/bin/python3, of the active virtual environment.");
  CHECK(chosen(called_in(here, {{"CONDA_PREFIX", "/venv"}, {"CONDA_DEFAULT_ENV", "torch"}}, ddprun)) ==
        "Python: /venv/bin/python3, of the active conda environment.");
  const std::string own = "Python: /own/bin/python3, of the virtual environment that ddprun is in.";
  CHECK(chosen(called_in(here, {{"CONDA_PREFIX", "/venv"}, {"CONDA_DEFAULT_ENV", "base"}}, ddprun)) == own);
  CHECK(chosen(called_in(here, {}, ddprun)) == own);
  here.path = "/bin";  // the variable is left over
  CHECK(chosen(called_in(here, {{"VIRTUAL_ENV", "/venv"}}, ddprun)) == own);
}

TEST_CASE("a link to a ddprun in a tool's private environment does not choose that environment", "[program]") {
  SearchContext here = files({{"/home/bin/ddprun", kProgram},
                              {"/tools/ddprun/bin/ddprun", kProgram},
                              {"/tools/ddprun/bin/python3", kProgram},
                              {"/tools/ddprun/pyvenv.cfg", kFile}});
  here.own_folder = "/tools/ddprun/bin";
  here.path = "/home/bin:/bin";
  const auto by = [&](const std::string& word) {
    return called_path(word, "/work", here, [](const std::string&) { return true; });
  };
  CHECK(by("ddprun") == "/home/bin/ddprun");
  CHECK(by("/tools/ddprun/bin/ddprun") == "/tools/ddprun/bin/ddprun");
  CHECK(by("./bin/ddprun") == "/work/bin/ddprun");
  CHECK(by("../bin/ddprun") == "/bin/ddprun");
  CHECK(by("other").empty());
  CHECK(called_path("ddprun", "/work", here, [](const std::string&) { return false; }).empty());  // another one in PATH

  CHECK(chosen(called_in(here, {}, by("ddprun"))) == "Python: /bin/python3, the first one in PATH.");
  CHECK(chosen(called_in(here, {}, by("/tools/ddprun/bin/ddprun"))) ==
        "Python: /tools/ddprun/bin/python3, of the virtual environment that ddprun is in.");
}

TEST_CASE("a ddprun of a source tree takes the tree's .venv where PATH's Python has no torch", "[program]") {
  const auto python = [](std::map<std::string, std::vector<std::string>> folders,
                         const std::string& own = "/src/build/release/bin") {
    SearchContext here = files({{"/src/.venv/bin/python3", kProgram}});
    here.own_folder = own;
    here.python_files = [folders = std::move(folders)] {
      agent::PythonFiles out;
      out.without_links = [](const std::string& path) { return path; };
      out.names = [folders](const std::string& folder) {
        const auto found = folders.find(folder);
        return found == folders.end() ? Words{} : found->second;
      };
      out.content = [](const std::string& path) { return path == "/src/.venv/pyvenv.cfg" ? "home = /bin\n" : ""; };
      return out;
    };
    return chosen(here);
  };
  const std::string tree = "Python: /src/.venv/bin/python3, of ddprun's source tree, as PATH's python3 has no torch.";
  const std::string first = "Python: /bin/python3, the first one in PATH.";
  using Folders = std::map<std::string, std::vector<std::string>>;
  const Folders bare{{"/lib", {"python3.11"}}, {"/lib/python3.11", {"os.py"}}};
  CHECK(python(bare) == tree);
  CHECK(python(bare, "/src/build/bin") == first);
  CHECK(python(bare, "/usr/bin") == first);
  Folders with_torch = bare;
  with_torch["/lib/python3.11/site-packages"] = {"torch"};
  with_torch["/lib/python3.11/site-packages/torch"] = {"__init__.py"};
  CHECK(python(with_torch) == first);
  // PATH's is a script that starts another one: .venv is taken if it has torch.
  CHECK(python({}) == first);
  CHECK(python({{"/src/.venv/lib", {"python3.11"}},
                {"/src/.venv/lib/python3.11/site-packages", {"torch"}},
                {"/src/.venv/lib/python3.11/site-packages/torch", {"__init__.py"}}}) == tree);
}

TEST_CASE("whatever Python runs by its path is given to Python", "[program]") {
  const std::map<std::string, FileKind> package{{"job", kFolder}, {"job/__main__.py", kFile}};
  CHECK(find_program(config_of({"job", "7"}), files(package)).argv == Words{"/bin/python3", "-u", "job", "7"});
  CHECK(find_program(config_of({"./job"}), files({{"./job", kFolder}, {"./job/__main__.py", kFile}})).by_python);
  auto beside_a_program = package;
  beside_a_program.emplace("/bin/job", kProgram);
  CHECK(find_program(config_of({"job"}), files(beside_a_program)).path == "/bin/job");
  Config config = config_of({"job"});
  config.run_path = true;
  CHECK(find_program(config, files(package)).by_python);
  config.run_path = false;
  config.no_python = true;
  CHECK(refusal(config, files(package)) == "cannot start job: it is a folder. Name the program inside it.");

  for (const char* file : {"./job.pyz", "./job.pyc"}) {
    SearchContext here = files({{file, kProgram}});
    CHECK(find_program(config_of({file}), here).by_python);
    here.first_bytes = [](const std::string&) { return "#!"; };
    CHECK_FALSE(find_program(config_of({file}), here).by_python);  // it names its own Python
    CHECK(find_program(config_of({file}), files({{file, kScript}})).by_python);
  }
  CHECK(refusal(config_of({"-"}), files({})) ==
        "cannot start -: a program that comes by stdin reaches one worker only. Write it into a file.");
  Config mode = config_of({"see", "job.py"});
  CHECK_FALSE(refusal(mode, files({})).ends_with("Write --watch=see."));
  mode.watch = WatchMode::act;
  CHECK(refusal(mode, files({})).ends_with("Write --watch=see."));
  CHECK(find_program(mode, files({{"/bin/see", kProgram}})).path == "/bin/see");
}

TEST_CASE("a file without run permission is a script, also without .py", "[program]") {
  CHECK(find_program(config_of({"job"}), files({{"job", kScript}})).path == "/bin/python3");
  CHECK(find_program(config_of({"./job"}), files({{"./job", kScript}})).path == "/bin/python3");
}

TEST_CASE("a script for a shell without run permission is refused, and nothing is given to Python", "[program]") {
  const auto here = [](const std::string& file, const std::string& beginning) {
    SearchContext out = files({{file, kScript}});
    out.first_bytes = [beginning](const std::string&) { return beginning; };
    return out;
  };
  const auto says = [&](const std::string& file, const std::string& beginning) {
    return refusal(config_of({file, "7"}), here(file, beginning));
  };
  CHECK(says("./run.sh", "#!/bin/bash\necho\n") ==
        "cannot start ./run.sh: it has no run permission, and by its first line it is for bash, not Python. "
        "Run chmod +x ./run.sh, or write ddprun bash ./run.sh, or ddprun --run-path ./run.sh if it is Python.");
  CHECK(says("run.sh", "#! /usr/bin/env -S bash -e\r\n") ==
        "cannot start run.sh: it has no run permission, and by its first line it is for bash, not Python. "
        "Run chmod +x run.sh and start ./run.sh, or write ddprun bash -e run.sh, or ddprun --run-path run.sh if it is "
        "Python.");
  CHECK(says("my run", "#!/opt/x/bin/perl")
            .ends_with("or write ddprun /opt/x/bin/perl 'my run', or ddprun --run-path 'my run' if it is Python."));
  CHECK_THAT(says("my run", "#!/bin/sh"), Contains("Run chmod +x 'my run' and start './my run', or"));
  Config config = config_of({"./run.sh"});
  config.no_python = true;
  CHECK(refusal(config, here("./run.sh", "#!/bin/sh\n"))
            .ends_with(
                "Run chmod +x ./run.sh, or write ddprun sh ./run.sh, or ddprun --run-path ./run.sh if it is Python."));
  for (const char* bash :
       {"#!/usr/bin/env -Sbash\n", "#!/usr/bin/env -S FOO=1 -u BAR bash\n", "#!/usr/bin/env -iSbash\n",
        "#!/usr/bin/env --split-string=FOO=1 bash", "#!/usr/bin/env -S -C /x -uA --unset B bash\n",
        "#!/bin/bash\n# starts it\n\"$HOME/x/start\"\n", "#!/bin/bash\n#\n'/a b/start'\n", "#!/bin/bash\n# no more",
        "#!/bin/bash\n#"})
    CHECK_THAT(says("./run.sh", bash), Contains("or write ddprun bash ./run.sh, or"));

  for (const char* python :
       {"#!/usr/bin/env python3\n", "#!/opt/venv/bin/python3.12 -u\n", "#!/usr/bin/env -S uv run\n",
        "#!/bin/sh\n'''exec' /a/long/path/python \"$0\" \"$@\"\n' '''\n",
        "#!/bin/sh\n# -*- mode: python -*-\n\"exec\" \"python3\" \"$0\" \"$@\"\nimport os\n",
        "#!/bin/bash\n# -*- coding: utf-8 -*-\n#\n\"\"\"\":\"\nexec python3 $0\n\"\"\"\n",
        "#!/usr/bin/env -S -u sh python3\n", "#!/usr/bin/env -Spython3 bash\n", "#!/usr/bin/env -S\n",
        "#!/usr/bin/env -u\n", "import os\n", "", "#!", "#!\n"})
    CHECK(find_program(config_of({"./job"}), here("./job", python)).by_python);
  CHECK(find_program(config_of({"a.py"}), here("a.py", "#!/bin/bash\n")).by_python);  // its name says so
  config = config_of({"./job"});
  config.run_path = true;
  CHECK(find_program(config, here("./job", "#!/bin/bash\n")).by_python);
  SearchContext in_path = files({{"true", kScript}, {"/bin/true", kProgram}});
  in_path.first_bytes = [](const std::string&) { return "#!/bin/sh\n"; };
  CHECK(find_program(config_of({"true"}), in_path).path == "/bin/true");
}

TEST_CASE("an executable with a slash is exec'd, also where it ends in .sh", "[program]") {
  const Program program = find_program(config_of({"./run.sh", "x"}), files({{"./run.sh", kProgram}}));
  CHECK(program.path == "./run.sh");
  CHECK(program.argv == Words{"./run.sh", "x"});
}

TEST_CASE("a bare word is looked up in PATH, then beside ddprun", "[program]") {
  CHECK(find_program(config_of({"true"}), files({{"/bin/true", kProgram}})).path == "/bin/true");
  CHECK(find_program(config_of({"train"}), files({{"/opt/train", kProgram}})).path == "/opt/train");
  CHECK(find_program(config_of({"train"}), files({{"/opt/train", kProgram}, {"/bin/train", kProgram}})).path ==
        "/bin/train");
}

TEST_CASE("a folder named like the program does not hide it", "[program]") {
  CHECK(find_program(config_of({"train"}), files({{"train", kFolder}, {"/opt/train", kProgram}})).path == "/opt/train");
  CHECK(find_program(config_of({"true"}), files({{"/bin/true", kFolder}, {"/opt/true", kProgram}})).path ==
        "/opt/true");
}

TEST_CASE("an executable here without a slash is not picked up: PATH decides, as in a shell", "[program]") {
  CHECK(find_program(config_of({"true"}), files({{"true", kProgram}, {"/bin/true", kProgram}})).path == "/bin/true");
}

TEST_CASE("option --module and --no-python choose how it is started", "[program]") {
  Config config = config_of({"pkg.train", "7"});
  config.module = true;
  CHECK(find_program(config, files({})).argv == Words{"/bin/python3", "-u", "-m", "pkg.train", "7"});
  config = config_of({"./a.py"});
  config.no_python = true;
  CHECK(find_program(config, files({{"./a.py", kProgram}})).path == "./a.py");
}

TEST_CASE("option --run-path gives any file to Python, and goes before --module and --no-python", "[program]") {
  Config config = config_of({"./job", "7"});
  config.run_path = config.module = config.no_python = true;
  CHECK(find_program(config, files({{"./job", kProgram}})).argv == Words{"/bin/python3", "-u", "./job", "7"});
  CHECK(refusal(config, files({})) == "cannot start ./job: there is no such file. Check the path of the program.");
}

TEST_CASE("what cannot be started is one sentence", "[program]") {
  CHECK(refusal(config_of({"nonsense"}), files({})) ==
        "cannot start nonsense: it is neither a file here, nor in PATH, nor beside ddprun. Give its path, such as "
        "./nonsense.");
  CHECK(refusal(config_of({"train"}), files({})) ==
        "cannot start train: it is neither a file here, nor in PATH, nor beside ddprun. The trainer train comes with a "
        "build of ddprun on LibTorch, or with the Debian package ddprun-train: install it, or give the path of a "
        "program of yours.");
  CHECK(refusal(config_of({"run.sh"}), files({{"run.sh", kProgram}})) ==
        "cannot start run.sh: it is not in PATH, and a file here is given by its path. Write ./run.sh.");
  CHECK_THAT(refusal(config_of({"s 14"}), files({{"s 14", kProgram}})), EndsWith("Write './s 14'."));
  CHECK_THAT(refusal(config_of({"a b.py"}), files({})), EndsWith("Give its path, such as './a b.py'."));
  CHECK_THAT(refusal(config_of({"stat us"}), files({})),
             EndsWith("Did you mean 'status'? A program of yours is given by its path, such as './stat us'."));
  CHECK(refusal(config_of({"./gone.py"}), files({})) ==
        "cannot start ./gone.py: there is no such file. Check the path of the program.");
  CHECK(refusal(config_of({"gone.py"}), files({})) ==
        "cannot start gone.py: it is neither a file here, nor in PATH, nor beside ddprun. Give its path, such as "
        "./gone.py.");
  CHECK(refusal(config_of({"./d"}), files({{"./d", kFolder}})) ==
        "cannot start ./d: it is a folder. Name the program inside it.");
  CHECK(refusal(config_of({"a.py"}), files({{"a.py", kScript}}, "python9")) ==
        "cannot start Python: there is no python9 in PATH. Set PYTHON_EXEC to the interpreter, or pass --no-python for "
        "a program that is not Python.");
  Config config = config_of({"./a.py"});
  config.no_python = true;
  CHECK(refusal(config, files({{"./a.py", kScript}})) ==
        "cannot start ./a.py: it has no run permission. Run chmod +x on it, or leave out --no-python.");
}

TEST_CASE("a program whose name is almost right is named, where it lies in the same folder", "[program]") {
  SearchContext here = files({{"eval", kProgram},
                              {"outputs", kFolder},
                              {"finetune.py", kScript},
                              {"src/train.py", kScript},
                              {"src/.train.py", kScript},
                              {"src/.model.py", kScript},
                              {"src/tests.py", kFolder},
                              {"src/testt.py", kScript},
                              {"package", kFolder},
                              {"package/__main__.py", kScript},
                              {"x.py", kScript},
                              {"ab.py", kScript}});
  here.names_in = [](const std::string& folder) {
    return folder == "."      ? Words{"finetune.py", "eval", "outputs", "notes.txt", "x.py", "ab.py", "package"}
           : folder == "src/" ? Words{".train.py", "train.py", "tests.py", "testt.py"}
                              : Words{};
  };
  const auto answer = [&](const std::string& typed) { return refusal(config_of({typed}), here); };
  CHECK_THAT(answer("fientune.py"), EndsWith("nor beside ddprun. Did you mean 'finetune.py'?"));
  CHECK_THAT(answer("evla"), EndsWith("nor beside ddprun. Did you mean './eval'?"));
  CHECK_THAT(answer("pakcage"), EndsWith("Did you mean './package'?"));
  CHECK_THAT(answer("src/trian.py"), EndsWith("there is no such file. Did you mean 'src/train.py'?"));
  CHECK_THAT(answer("src/test.py"), EndsWith("Did you mean 'src/testt.py'?"));  // the nearest that can be started
  CHECK_THAT(answer("src/.trian.py"), EndsWith("Did you mean 'src/.train.py'?"));
  for (const char* typed : {"output", "notes.tx", "other.py", "y.py", "b.py", "ac.py", "xy.py", "evl.py", "src/.py"})
    CHECK_THAT(answer(typed), !Contains("Did you mean"));
  here.names_in = [](const std::string&) { return Words{".model.py"}; };
  CHECK_THAT(answer("src/model.py"), !Contains("Did you mean"));  // a hidden one
  CHECK_THAT(answer("outputs"), EndsWith("it is a folder without a __main__.py. Name the program inside it."));
}

TEST_CASE("a large folder's names are all read for a hint", "[program]") {
  const TempFolder folder;
  for (int i = 0; i < 3000; ++i) folder.write("f" + std::to_string(i), "");
  CHECK(search_context().names_in(folder.path().string()).size() == 3000);
  CHECK(search_context().names_in((folder / "none").string()).empty());
}

TEST_CASE("a word that is almost a command of ddprun is told so, unless there is such a program", "[program]") {
  const std::string none = ": it is neither a file here, nor in PATH, nor beside ddprun. ";
  for (const auto& [typed, meant] : std::map<std::string, std::string>{{"statu", "status"},
                                                                       {"runn", "run"},
                                                                       {"reprot", "report"},
                                                                       {"canel", "cancel"},
                                                                       {"tarin", "train"},
                                                                       {"clt", "ctl"}})
    CHECK(refusal(config_of({typed, "x.toml"}), files({})) ==
          "cannot start " + typed + none + "Did you mean '" + meant +
              "'? A program of yours is given by its path, such as ./" + typed + ".");
  CHECK(find_program(config_of({"runn", "x.toml"}), files({{"/bin/runn", kProgram}})).path == "/bin/runn");
  CHECK(find_program(config_of({"runn"}), files({{"runn", kScript}})).by_python);
  CHECK(refusal(config_of({"./statu"}), files({})) ==
        "cannot start ./statu: there is no such file. Check the path of the program.");
}

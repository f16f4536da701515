#include "launcher/program.h"

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
    here.own_folder = "/venv/bin";
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
  here.own_folder = "/opt/bin";
  Config config = config_of({"a.py"});
  CHECK(find_program(config, here).argv == Words{"/opt/bin/python3", "-u", "a.py"});
  CHECK(find_program(config, here).by_python);
  config.run_path = true;
  CHECK(find_program(config, here).path == "/opt/bin/python3");
  config.run_path = false;
  config.module = true;
  CHECK(find_program(config, here).path == "/opt/bin/python3");
}

TEST_CASE("a file without run permission is a script, also without .py", "[program]") {
  CHECK(find_program(config_of({"job"}), files({{"job", kScript}})).path == "/bin/python3");
  CHECK(find_program(config_of({"./job"}), files({{"./job", kScript}})).path == "/bin/python3");
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

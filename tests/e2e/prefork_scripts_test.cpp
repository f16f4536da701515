// Python scripts as users of PyTorch write them, with workers that are forked from a template.
#include "tests/e2e/programs.h"
#include "tests/support/soak.h"
#include "tests/support/test.h"

namespace {

const std::string kPrint = "import os\nos.write(1, b'rank ' + os.environ['RANK'].encode() + b'\\n')\n";

Ended preforked(const std::string& python, std::vector<std::string> words) {
  words.insert(words.begin(), {"--prefork", "--run-path"});
  return run(job_of(std::move(words)), 120s, {.env = {{"PYTHON_EXEC", python}}});
}

}  // namespace

TEST_CASE("stock scripts print with --prefork what they print without") {
  std::vector<std::string> words{torch_python(), source_folder() + "/tests/e2e/prefork_scripts_check.py", kDdprun};
  if (!soaking()) words.insert(words.end(), {"loader_fork", "whole"});
  const Ended ended = run(words, soaking() ? 3600s : 900s, {.env = {{"PYTHON_EXEC", torch_python()}}});
  CHECK(ended == exited(0));
  CHECK_FALSE(has(ended.out, "DIFFERS"));
}

TEST_CASE("a Python that would run the script in its template is noticed before") {
  const TempFolder folder;
  const std::string script = folder.write("script.py", kPrint);
  const std::string python = folder.write("python", "#!/bin/sh\nexec " + torch_python() + " -I \"$@\"\n", true);
  const Ended ended = preforked(python, {"--nproc-per-node=2", script});
  CHECK(ended == exited(0));
  CHECK(ended.out.size() == std::string("rank 0\nrank 1\n").size());
  CHECK(has(ended.err, "no template can be made: this Python ignores PYTHONPATH or sitecustomize"));
}

TEST_CASE("a script's own module of a name that the template has imported is not hidden by it") {
  const TempFolder folder;
  folder.write("calendar.py", "mine = True\n");
  const std::string script = folder.write("script.py", "import calendar\nprint('mine:', hasattr(calendar, 'mine'))\n");
  const Ended ended = preforked(torch_python(), {script});
  CHECK(ended == exited(0));
  CHECK(ended.out == "mine: True\n");
  CHECK(has(ended.err, "it has another module of the name of " + (folder / "calendar.py").string() + " already"));
}

TEST_CASE("a sitecustomize of the user's own runs in every worker, with its rank") {
  const TempFolder folder;
  folder.write("sitecustomize.py",
               "import os\nif 'RANK' in os.environ: os.write(1, b'own ' + os.environ['RANK'].encode() + b'\\n')\n");
  const std::string script = folder.write("script.py", kPrint);
  for (const char* option : {"--prefork", "--max-restarts=0"}) {
    const Ended ended = run(job_of({option, "--run-path", script}), 120s,
                            {.env = {{"PYTHON_EXEC", torch_python()}, {"PYTHONPATH", folder.path()}}});
    CHECK(ended == exited(0));
    CHECK(ended.out == "own 0\nrank 0\n");
    CHECK(ended.err.empty());
  }
}

#include "agent/diagnosis/script_sets.h"

#include "tests/support/test.h"

namespace {

// "3 MASTER_PORT", or nothing.
std::string found(const std::string& script) {
  const auto sets = script_sets(script);
  return sets ? std::to_string(sets->line) + " " + sets->variable : "";
}

}  // namespace

TEST_CASE("a script that sets what ddprun has set is found by its line", "[script_sets]") {
  CHECK(found("import os\n\nos.environ[\"MASTER_PORT\"] = \"29500\"\n") == "3 MASTER_PORT");
  CHECK(found("os.environ['RANK']=str(args.rank)") == "1 RANK");
  CHECK(found("from os import environ\nenviron[ 'RANK'] = '0'\nenviron['WORLD_SIZE'] = '1'") == "2 RANK");
  CHECK(found("os.putenv('MASTER_ADDR', 'localhost')\n") == "1 MASTER_ADDR");
  CHECK(
      found("def setup(rank, world_size):\n    \"\"\"Sets up.\"\"\"\n    os.environ['MASTER_ADDR'] = 'localhost'\n") ==
      "3 MASTER_ADDR");
  CHECK(found("if __name__ == '__main__':\n    os.environ['RANK'] = '0'\n") == "2 RANK");
  CHECK(found("x = \"it's\"  # isn't\ns = 'a\\'b'\nos.environ['RANK'] = '0'\n") == "3 RANK");
  CHECK(found("if x:\n    pass\nos.environ['RANK'] = '0'\n") == "3 RANK");
  CHECK(found("if (\n    x\n):\n    pass\nos.environ['RANK'] = '0'\n") == "5 RANK");
  CHECK(found("import os\r\n\r\nos.environ['RANK'] = '0'\r\n") == "3 RANK");
  CHECK(found("s = '''\n'''; n = [\n  1]\nx = 1 + \\\n    2\nos.environ['RANK'] = '0'\n") == "6 RANK");
  CHECK(found("os.environ['RANK'] = str(\n    int(os.environ['SLURM_PROCID'])\n)\n") == "1 RANK");
  CHECK(found("rank = os.environ['RANK']\nos.environ['MASTER_PORT'] = '1'\n") == "2 MASTER_PORT");
  CHECK(found("if x:\n    os.environ['RANK'] = '0'\nos.environ['RANK'] = '1'\n") == "3 RANK");
  CHECK(found("'''Needs \"RANK\".'''\n# os.environ['RANK']\nprint('RANK: 0')\nos.environ['RANK'] = '0'\n") == "4 RANK");
}

TEST_CASE("the script of a command is the first word that is no option of Python's", "[script_sets]") {
  CHECK(script_of({"/v/bin/python3.12", "-u", "train.py", "--lr", "1"}) == "train.py");
  CHECK(script_of({"python", "-X", "dev", "-Wignore", "a/b.py"}) == "a/b.py");
  for (const std::vector<std::string>& other : std::vector<std::vector<std::string>>{{},
                                                                                     {"python3"},
                                                                                     {"python3", "-u", "-m", "pkg"},
                                                                                     {"python3", "-c", "x"},
                                                                                     {"python3", "-"},
                                                                                     {"train", "x.py"}})
    CHECK(script_of(other).empty());
}

TEST_CASE("a script that reads variables, or sets them only where there are none, is innocent", "[script_sets]") {
  for (const char* script : {
           "",
           "rank = int(os.environ['RANK'])\n",
           "os.environ.setdefault('MASTER_PORT', '29500')\n",
           "# os.environ['RANK'] = '0'\n",
           "x = 1  # os.environ['RANK'] = '0'\n",
           "\"\"\"Usage:\nos.environ['RANK'] = '0'\n\"\"\"\n",
           "usage = '''\n  os.environ['RANK'] = '0'\n'''\n",
           "print(\"os.environ['RANK'] = '0'\")\n",
           "assert os.environ['RANK'] == '0'\n",
           "os.environ['RANK'] == '0'\n",
           "os.environ['OMP_NUM_THREADS'] = '4'\nos.environ['CUDA_VISIBLE_DEVICES'] = '0'\n",
           "os.environ[name] = '0'\n",
           "os.environ['RANK' + x] = '0'\n",
           "os.environ['RANK'] = os.environ.get('RANK', '0')\n",
           "if 'RANK' not in os.environ:\n    os.environ['RANK'] = '0'\n",
           "if os.environ.get('RANK') is None:\n\n    # alone\n    os.environ['RANK'] = '0'\n",
           "if x:\n    pass\nelse:\n    def f():\n        os.environ['RANK'] = '0'\n",
           "try:\n    rank = os.environ['RANK']\nexcept KeyError:\n    os.environ['RANK'] = '0'\n",
           "if (\n    'X' not in os.environ\n    and y\n):\n    os.environ['RANK'] = '0'\n",
           "if x and \\\ny:\n    os.environ['RANK'] = '0'\n",
           "if x:\r\n    y = 1\r\n\r\n    os.environ['RANK'] = '0'\r\n",
           "if x:\n    s = \"\"\"\nhello\n\"\"\"\n    os.environ['RANK'] = '0'\n",
           "if x:\n    y = [\n1,\n]\n    os.environ['RANK'] = '0'\n",
           "def f():\n    if 'RANK' in os.environ:\n        return\n    os.environ['RANK'] = '0'\n",
           "os.environ['MASTER_ADDR'] = os.environ.get(\n    \"MASTER_ADDR\", 'localhost'\n)\n",
           "os.environ['RANK'] = f\"{os.environ['RANK']}\"\n",
           "os.putenv('RANK', os.getenv(\n    'RANK'))\n",
           "rank = os.environ.get('RANK', '0')\nos.environ['RANK'] = rank\n",
           "kept = {n: os.environ[n] for n in ('RANK', 'WORLD_SIZE')}\nos.environ['RANK'] = kept['rank']\n",
           "os.environ['RANK'] \\",
           "os.environ['RANK'",
           "other.environ['RANK'] = '0'\n",
           "os.environ['RANK",
           "'''",
           "os.environ['",
       })
    CHECK(found(script) == "");
}

TEST_CASE("a long script takes as long per line as a short one", "[script_sets]") {
  // With a look back from each line it would take minutes.
  std::string script = "if x:\n";
  for (int i = 0; i < 100000; ++i) script += "    os.environ['RANK'] = '0'\n";
  CHECK(found(script) == "");
  CHECK(found(script + "os.environ['RANK'] = '0'\n") == "100002 RANK");
  std::string open;
  for (int i = 0; i < 100000; ++i) open += "os.environ['RANK'] = (\n";
  CHECK(found(open) == "");
}

// The pages of docs/ for people who train: each command in them runs, and prints what the page shows.
#include <algorithm>
#include <regex>
#include <sstream>

#include "tests/e2e/doc_page.h"
#include "tests/e2e/programs.h"
#include "tests/support/hosts.h"
#include "tests/support/test.h"

namespace {

constexpr auto kBlockLimit = 200s;

// Of the commands about jobs only those that start one have a dry run.
constexpr const char* kDry =
    "ddprun() {\n"
    "  case $1 in\n"
    "    run|submit) command ddprun \"$@\" --dry-run ;;\n"
    "    status|top|ctl|describe|log|cancel|list) command ddprun \"$1\" --help ;;\n"
    "    *) command ddprun --dry-run \"$@\" ;;\n"
    "  esac\n"
    "}\n";

CommandOptions in_folder(const TempFolder& folder) {
  const std::string python = fs::path(torch_python()).parent_path();
  return {.env = {{"PATH", programs_folder() + ":" + source_folder() + "/scripts/schedulers:" + python +
                               ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
                  {"RES_OPTIONS", "timeout:1 attempts:1"},
                  {"OMP_NUM_THREADS", "1"},  // more would wait for each other on a busy machine
                  {"XDG_STATE_HOME", folder / ".state"}},
          .cwd = folder.path()};
}

std::string words(const std::string& page, const Block& block) {
  return page + ":" + std::to_string(block.line) + ":\n" + block.text;
}

Ended bash(const TempFolder& folder, const std::string& script, const std::vector<std::string>& before = {}) {
  return run(joined({before, {"bash", "-c", script}}), kBlockLimit, in_folder(folder));
}

// Uses a separate host, so that the ports that a page names are free.
void run_blocks(const std::string& page, const std::vector<Block>& blocks) {
  const TempFolder folder;
  const Hosts hosts(1);
  std::string said;
  for (const Block& block : blocks) {
    INFO(words(page, block));
    if (block.language == "text" && block.follows) {
      INFO("it printed:\n" << said);
      CHECK(shows(block.text, said));
    }
    said.clear();
    if (block.language != "sh") continue;
    const Ended ended = bash(folder, script_of(block.text), hosts.on(0, {}));
    REQUIRE(ended == exited(0));
    said = ended.out;
  }
}

void try_dry(const std::string& page, const std::vector<Block>& blocks) {
  const TempFolder folder;
  for (const char* file : {"job.token", "metrics.token"})
    REQUIRE(bash(folder, std::string("umask 077 && ddprun --make-token > ") + file) == exited(0));
  for (const char* file : {"job.toml", "digits.toml"})
    folder.write(file, "program = \"train\"\n[kubernetes]\nimage = \"registry.local/train\"\n");
  for (const Block& block : blocks) {
    INFO(words(page, block));
    if (block.language == "toml") {
      folder.write("page.toml", block.text);
      const bool job = has(block.text, "[slurm]") || has(block.text, "[kubernetes]");
      CHECK(bash(folder, job ? "ddprun run --dry-run page.toml --set program=train"
                             : "ddprun --config page.toml --print-config") == exited(0));
    }
    if (block.language != "console") continue;
    for (const std::string& command : ddprun_commands(block.text)) {
      INFO(command);
      CHECK(bash(folder, kDry + command) == exited(0));
    }
  }
}

void check_files(const std::string& page, const std::string& text, const std::vector<Block>& blocks) {
  for (const std::string& link : links_of(text)) {
    INFO(page << " links to " << link);
    CHECK(fs::exists(fs::path(source_folder() + "/docs") / link));
  }
  for (const Block& block : blocks) {
    if (block.language != "cpp") continue;
    INFO(words(page, block));
    CHECK(has(read_file(fs::path(source_folder()) / block.file), block.text));
  }
}

void check_page(const std::string& page) {
  if (!hosts_or_skip()) return;
  const std::string text = read_file(fs::path(source_folder() + "/docs") / page);
  REQUIRE_FALSE(text.empty());
  const std::vector<Block> blocks = blocks_of(text);
  check_files(page, text, blocks);
  try_dry(page, blocks);
  run_blocks(page, blocks);
}

std::ptrdiff_t characters(const std::string& text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; });
}

// PyTorch's warnings, and what train write has written.
bool not_ours(const std::string& line) { return line.starts_with("[W") || line.starts_with("It was "); }

// What of a terminal's output does not fit into 80 columns, or is there twice in a row.
std::string untidy(const std::string& output) {
  static const std::regex kControl("\x1b\\[[0-9;?]*[A-Za-z]");
  std::string out, before;
  std::istringstream lines(std::regex_replace(output, kControl, ""));
  for (std::string line; std::getline(lines, line);) {
    while (!line.empty() && line.back() == '\r') line.pop_back();
    std::istringstream drawn(line);
    for (std::string text; std::getline(drawn, text, '\r');)
      if (characters(text) > 80 && !not_ours(text)) out += "too wide: " + text + "\n";
    if (!line.empty() && line == before) out += "twice: " + line + "\n";
    before = line;
  }
  return out;
}

}  // namespace

TEST_CASE("README's lines run one after the other in one folder, on a terminal of 80 columns", "[docs]") {
  if (!hosts_or_skip()) return;
  const TempFolder folder;
  folder.write("your_script.py",
               "import argparse, os, torch\n"
               "parser = argparse.ArgumentParser()\n"
               "parser.add_argument('--lr', type=float)\n"
               "rate = parser.parse_args().lr\n"
               "torch.distributed.init_process_group('gloo')\n"
               "model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1))\n"
               "optimizer = torch.optim.SGD(model.parameters(), lr=rate)\n"
               "for _ in range(20):\n"
               "  model(torch.ones(4, 8)).sum().backward()\n"
               "  optimizer.step()\n"
               "print('rank', os.environ['RANK'], 'is done')\n"
               "torch.distributed.destroy_process_group()\n");
  // In a namespace of process ids, since pkill is for all; and it does not wait longer than it has to.
  const std::string sooner =
      "touch begun; sleep() { until [ \"$(find . -name '*.pt' -newer begun)\" ]; do command sleep 0.1; done; }\n";
  const Hosts hosts(1);
  std::string said;
  int ran = 0;
  for (const Block& block : blocks_of(read_file(source_folder() + "/README.md"))) {
    if (block.language != "sh") continue;
    INFO(words("README.md", block));
    CommandOptions options = in_folder(folder);
    options.terminal = true;
    const std::string script =
        sooner + script_of(std::regex_replace(block.text, std::regex("train 200 "), "train 40 "));
    const Ended ended =
        run(hosts.on(0, {"unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "bash", "-c", script}),
            kBlockLimit, options);
    INFO(ended.out);
    CHECK(ended == exited(0));
    CHECK(untidy(ended.out) == "");
    said += ended.out;
    ++ran;
  }
  CHECK(ran == 4);
  for (const char* part : {"done: 10 epochs", "sampler", "rank 1 is done",
                           "ddprun: page: http://localhost:", "restart 1 of 3", "done: 40 epochs", "done: 12 epochs"})
    CHECK(has(said, part));
}

TEST_CASE("a page's blocks, their exit codes and their output are read as written", "[docs]") {
  const auto blocks = blocks_of("words\n```sh\na\n```\n\n```text\nb 1\n```\nmore\n```cpp x.cpp\n```\n");
  REQUIRE(blocks.size() == 3);
  CHECK(blocks[0].language == "sh");
  CHECK(blocks[0].text == "a\n");
  CHECK(blocks[0].line == 2);
  CHECK(blocks[1].follows);
  CHECK_FALSE(blocks[2].follows);
  CHECK(blocks[2].file == "x.cpp");
  CHECK_THROWS(blocks_of("```sh\n"));

  const TempFolder folder;
  CHECK(bash(folder, script_of("true\nsh -c 'exit 75'  # exits with 75\ntrue")) == exited(0));
  CHECK(bash(folder, script_of("true  # exits with 75")) == exited(1));
  CHECK(bash(folder, script_of("false\ntrue")) == exited(1));
  CHECK(bash(folder, script_of("sh -c \\\n  'exit 2'  # exits with 2\nls /none  # exits with 2"))
            .out.starts_with("ls: "));

  CHECK(ddprun_commands("node0$ ddprun a \\\n  b\n$ train\nddprun c\n$ A=1 ddprun d\n") ==
        std::vector<std::string>{"ddprun a \\\n  b", "A=1 ddprun d"});
  CHECK(links_of("[a](b.md) [c](https://d) [e](f.md)") == std::vector<std::string>{"b.md", "f.md"});
}

TEST_CASE("a page shows an output whose numbers are others, and no other one", "[docs]") {
  CHECK(shows("epoch 1: loss 0.25\n", "epoch 2: loss 1e-05\n"));
  CHECK_FALSE(shows("epoch 1: loss 0.25\n", "epoch 1: cost 0.25\n"));
  CHECK(shows("2 of 9 epochs done, and 46 % of the next\n", "3 of 9 epochs done\n"));
  CHECK_FALSE(shows("a\n", "a\nb\n"));
  CHECK_FALSE(shows("a\nb\n", "a\n"));
  CHECK(shows("a\n...\nd\n", "a\nb\nc\nd\n"));
  CHECK(shows("...\nd\n...\n", "d\n"));
  CHECK_FALSE(shows("a\n...\nd\n", "a\nb\n"));
}

TEST_CASE("docs/quick-start.md does what it says", "[docs]") { check_page("quick-start.md"); }
TEST_CASE("docs/several-nodes.md does what it says", "[docs]") { check_page("several-nodes.md"); }
TEST_CASE("docs/etcd.md does what it says", "[docs]") { check_page("etcd.md"); }
TEST_CASE("docs/page.md does what it says", "[docs]") { check_page("page.md"); }
TEST_CASE("docs/metrics.md does what it says", "[docs]") { check_page("metrics.md"); }
TEST_CASE("docs/push.md does what it says", "[docs]") { check_page("push.md"); }
TEST_CASE("docs/end-file.md does what it says", "[docs]") { check_page("end-file.md"); }
TEST_CASE("docs/events.md does what it says", "[docs]") { check_page("events.md"); }
TEST_CASE("docs/status.md does what it says", "[docs]") { check_page("status.md"); }
TEST_CASE("docs/chaos.md does what it says", "[docs]") { check_page("chaos.md"); }
TEST_CASE("docs/ctl.md does what it says", "[docs]") { check_page("ctl.md"); }
TEST_CASE("docs/jobs.md does what it says", "[docs]") { check_page("jobs.md"); }
TEST_CASE("docs/logs.md does what it says", "[docs]") { check_page("logs.md"); }
TEST_CASE("docs/sagemaker-hydra.md does what it says", "[docs]") { check_page("sagemaker-hydra.md"); }
TEST_CASE("docs/programs.md does what it says", "[docs]") { check_page("programs.md"); }
TEST_CASE("docs/prefork.md does what it says", "[docs]") { check_page("prefork.md"); }
TEST_CASE("docs/in-process.md does what it says", "[docs]") { check_page("in-process.md"); }
TEST_CASE("docs/ssh.md does what it says", "[docs]") { check_page("ssh.md"); }
TEST_CASE("docs/report.md does what it says", "[docs]") { check_page("report.md"); }
TEST_CASE("docs/resume.md does what it says", "[docs]") { check_page("resume.md"); }
TEST_CASE("docs/debugging.md does what it says", "[docs]") { check_page("debugging.md"); }
TEST_CASE("docs/failures.md does what it says", "[docs]") { check_page("failures.md"); }
TEST_CASE("docs/checkpoints.md does what it says", "[docs]") { check_page("checkpoints.md"); }
TEST_CASE("docs/transfer.md does what it says", "[docs]") { check_page("transfer.md"); }
TEST_CASE("docs/own-model.md does what it says", "[docs]") { check_page("own-model.md"); }
TEST_CASE("docs/containers.md does what it says", "[docs]") { check_page("containers.md"); }
TEST_CASE("docs/schedulers.md does what it says", "[docs]") { check_page("schedulers.md"); }
TEST_CASE("docs/slurm.md does what it says", "[docs]") { check_page("slurm.md"); }
TEST_CASE("docs/kubernetes.md does what it says", "[docs]") { check_page("kubernetes.md"); }
TEST_CASE("docs/gpu.md does what it says", "[docs]") { check_page("gpu.md"); }

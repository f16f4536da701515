// The pages of docs/ for people who train, and the examples: each command in them runs, and prints what the page shows.
#include <algorithm>
#include <regex>
#include <sstream>

#include "tests/e2e/page_run.h"
#include "tests/e2e/programs.h"
#include "tests/support/hosts.h"
#include "tests/support/test.h"

namespace {

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
  const TempFolder dry, folder;
  for (const char* file : {"job.toml", "digits.toml"})
    dry.write(file, "program = \"train\"\n[kubernetes]\nimage = \"registry.local/train\"\n");
  try_dry(page, blocks, dry);
  const Hosts hosts(1);  // so that the ports that a page names are free
  run_blocks(page, blocks, reader_in(folder), hosts.on(0, {}));
}

bool no_module(const std::string& module) {
  const std::string program = "import importlib.util as u, sys; sys.exit(u.find_spec('" + module + "') is None)";
  return skipped_if(run({torch_python(), "-c", program}, kLimit) != exited(0),
                    "no " + module + " in .venv (scripts/setup.sh --test)");
}

// As a reader does who has copied the example into this folder.
void check_example(const std::string& name, const TempFolder& folder) {
  const TempFolder dry;
  copy_example(name, dry);
  copy_example(name, folder);
  const std::vector<Block> blocks = blocks_of_example(name);
  try_dry(name, blocks, dry);
  run_blocks(name, blocks, reader_in(folder));
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
    CommandOptions options = reader_in(folder);
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
  const CommandOptions in_it = reader_in(folder);
  CHECK(bash(script_of("true\nsh -c 'exit 75'  # exits with 75\ntrue"), in_it) == exited(0));
  CHECK(bash(script_of("true  # exits with 75"), in_it) == exited(1));
  CHECK(bash(script_of("false\ntrue"), in_it) == exited(1));
  CHECK(
      bash(script_of("sh -c \\\n  'exit 2'  # exits with 2\nls /none  # exits with 2"), in_it).out.starts_with("ls: "));

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

TEST_CASE("examples/ddp-python does what its README says", "[docs]") { check_example("ddp-python", {}); }
TEST_CASE("examples/fsdp2 does what its README says", "[docs]") { check_example("fsdp2", {}); }
TEST_CASE("examples/transformers-trainer does what its README says", "[docs]") {
  if (no_module("transformers")) return;
  const TempFolder folder, undisturbed;
  check_example("transformers-trainer", folder);
  // Ten steps are logged, and again those few that were done after the last checkpoint.
  CHECK(count(read_file(folder / "run.log"), "grad_norm") <= 13);
  copy_example("transformers-trainer", undisturbed);
  fs::create_directories(undisturbed / "out/checkpoint-199");  // as a worker leaves it that dies in a save
  REQUIRE(bash("ddprun --nproc-per-node=2 --prefork --prefork-import transformers.trainer train.py",
               reader_in(undisturbed)) == exited(0));
  const std::string model = "out/final/model.safetensors", weights = read_file(folder / model);
  CHECK(weights.size() > 1000);
  CHECK(weights == read_file(undisturbed / model));
}
TEST_CASE("examples/lightning does what its README says", "[docs]") {
  if (!no_module("pytorch_lightning")) check_example("lightning", {});
}
TEST_CASE("examples/kubernetes does what its README says", "[docs]") { check_example("kubernetes", {}); }

#include "tests/e2e/page_run.h"

#include "tests/e2e/programs.h"
#include "tests/support/test.h"

namespace ddprun::test {
namespace {

// Of the commands about jobs only those that start one have a dry run.
constexpr const char* kDry =
    "ddprun() {\n"
    "  case $1 in\n"
    "    run|submit) command ddprun \"$@\" --dry-run ;;\n"
    "    status|top|ctl|describe|log|cancel|list) command ddprun \"$1\" --help ;;\n"
    "    *) command ddprun --dry-run \"$@\" ;;\n"
    "  esac\n"
    "}\n";

}  // namespace

CommandOptions reader_in(const TempFolder& folder) {
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

Ended bash(const std::string& script, const CommandOptions& options, const std::vector<std::string>& before) {
  return run(joined({before, {"bash", "-c", script}}), kBlockLimit, options);
}

void run_blocks(const std::string& page, const std::vector<Block>& blocks, const CommandOptions& options,
                const std::vector<std::string>& before) {
  std::string said;
  for (const Block& block : blocks) {
    INFO(words(page, block));
    if (block.language == "text" && block.follows) {
      INFO("it printed:\n" << said);
      CHECK(shows(block.text, said));
    }
    said.clear();
    if (block.language != "sh") continue;
    const Ended ended = bash(script_of(block.text), options, before);
    REQUIRE(ended == exited(0));
    said = ended.out;
  }
}

void try_dry(const std::string& page, const std::vector<Block>& blocks, const TempFolder& folder) {
  const CommandOptions options = reader_in(folder);
  for (const char* file : {"job.token", "metrics.token"})
    REQUIRE(bash(std::string("umask 077 && ddprun --make-token > ") + file, options) == exited(0));
  for (const Block& block : blocks) {
    INFO(words(page, block));
    if (block.language == "toml") {
      folder.write("page.toml", block.text);
      const bool job = has(block.text, "[slurm]") || has(block.text, "[kubernetes]");
      CHECK(
          bash(job ? "ddprun run --dry-run page.toml --set program=train" : "ddprun --config page.toml --print-config",
               options) == exited(0));
    }
    if (block.language != "console") continue;
    for (const std::string& command : ddprun_commands(block.text)) {
      INFO(command);
      CHECK(bash(kDry + command, options) == exited(0));
    }
  }
}

void copy_example(const std::string& name, const TempFolder& folder) {
  fs::copy(fs::path(source_folder()) / "examples" / name, folder.path(), fs::copy_options::recursive);
}

std::vector<Block> blocks_of_example(const std::string& name) {
  const std::string page = read_file(fs::path(source_folder()) / "examples" / name / "README.md");
  REQUIRE_FALSE(page.empty());
  return blocks_of(page);
}

}  // namespace ddprun::test

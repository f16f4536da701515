// Parses the fenced blocks of a page of docs/. Pure.
//
//   ```sh        commands that a test runs, all of a page's in one folder and in their order
//   ```text      directly behind them: what they print
//   ```console   commands behind a prompt ("$ ", "node0$ ") that cannot run here; those of ddprun are tried with
//   --dry-run
//   ```toml      a file for ddprun's --config
//   ```cpp FILE  lines of that file of the repository
#pragma once
#include <string>
#include <vector>

namespace ddprun::test {

struct Block {
  std::string language = {}, file = {};  // the words behind the fence
  std::string text = {};
  int line = 0;          // line of its fence in the page, from 1
  bool follows = false;  // only empty lines since the previous block
};
// Throws std::runtime_error if a block has no end.
std::vector<Block> blocks_of(const std::string& page);

// A bash script that exits with 0 if each command exits with 0, or with the code that a comment "# exits with 75" after
// it gives. stderr goes to stdout.
std::string script_of(const std::string& commands);

// The commands of ddprun in a ```console block, without their prompts.
std::vector<std::string> ddprun_commands(const std::string& console);

// Whether the output matches the lines of the page: all numbers are equal, and a line "..." matches any lines.
bool shows(const std::string& page, const std::string& output);

// The files that a page links to, as written; without web addresses.
std::vector<std::string> links_of(const std::string& page);

}  // namespace ddprun::test

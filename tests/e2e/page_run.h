// Does what a page says, in a folder, as its reader would: docs/, and the examples' README files.
#pragma once
#include <chrono>
#include <string>
#include <vector>

#include "tests/e2e/doc_page.h"
#include "tests/support/command.h"

namespace ddprun::test {

inline constexpr std::chrono::seconds kBlockLimit{600};

// The programs under test, scripts/schedulers and a Python with torch are found; records of jobs stay in the folder.
CommandOptions reader_in(const TempFolder& folder);

// Where a block is, for INFO.
std::string words(const std::string& page, const Block& block);

// By bash; `before` are the words of a command that starts it, such as Hosts::on().
Ended bash(const std::string& script, const CommandOptions& options, const std::vector<std::string>& before = {});

// All blocks `sh` in their order; a block `text` behind one is what it prints.
void run_blocks(const std::string& page, const std::vector<Block>& blocks, const CommandOptions& options,
                const std::vector<std::string>& before = {});

// Blocks `toml`, and the commands of ddprun in blocks `console`, with --dry-run.
void try_dry(const std::string& page, const std::vector<Block>& blocks, const TempFolder& folder);

// examples/NAME, copied into a folder as its README says.
void copy_example(const std::string& name, const TempFolder& folder);
std::vector<Block> blocks_of_example(const std::string& name);

}  // namespace ddprun::test

// --help of a verb whose words CLI11 reads, in the form of ddprun's own help. Pure.
#pragma once
#include <memory>
#include <string>

namespace CLI {
class FormatterBase;
}

namespace ddprun::settings {

// For CLI::App::formatter(). `usage`: "ddprun status [JOB] [options]". Of the description, lines that begin with a
// space stay as they are; the footer follows the options.
std::shared_ptr<CLI::FormatterBase> verb_help(const std::string& usage);

}  // namespace ddprun::settings

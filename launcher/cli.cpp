#include "launcher/cli.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <functional>

namespace ddprun {
namespace {

constexpr const char* kUsage = "ddprun [options] PROGRAM [its arguments]";
constexpr const char* kVersion = "ddprun 0.1.0\n";

using Adder = std::function<CLI::Option*(CLI::App&, const std::string& spellings)>;

Adder into(std::string& target) {
  return [&target](CLI::App& app, const std::string& spellings) { return app.add_option(spellings, target); };
}

template <class Number>
Adder into(Number& target) {
  return [&target](CLI::App& app, const std::string& spellings) {
    const auto convert = [&target, name = spellings.substr(0, spellings.find(','))](const std::string& text) {
      const char* end = text.data() + text.size();
      if (const auto [stop, error] = std::from_chars(text.data(), end, target); error != std::errc() || stop != end)
        throw CLI::ValidationError(name + " is '" + text + "'; it takes a number.");
    };
    return app.add_option_function<std::string>(spellings, convert);
  };
}

Adder sets(bool& target) {
  return [&target](CLI::App& app, const std::string& spellings) { return app.add_flag(spellings, target); };
}

// With dashes, as a person reads it; every option also exists with underscores and as PET_<NAME> in the environment.
struct OptionRow {
  const char* name;
  const char* also;  // further spellings, comma-separated
  const char* value;
  const char* help;
  Adder add;
};

std::vector<OptionRow> option_table(Config& config) {
  return {
      {"nproc-per-node", "", "N", "workers: a number, cpu, gpu, or auto (default 1)", into(config.nproc_per_node)},
      {"nnodes", "", "N", "nodes of the job: 1, more are not supported yet", into(config.nnodes)},
      {"standalone", "", "", "one machine, any free port: the default", sets(config.standalone)},
      {"max-restarts", "", "N", "restarts after failures (default 3)", into(config.max_restarts)},
      {"stop-grace", "--shutdown-timeout", "S", "seconds from SIGTERM to SIGKILL (default 25)",
       into(config.stop_grace_s)},
      {"no-python", "", "", "exec PROGRAM as it is, even a .py file", sets(config.no_python)},
      {"module", "-m", "", "run PROGRAM as a Python module", sets(config.module)},
      {"log-dir", "", "DIR", "also write DIR/<run id>/round-N/rank-R/*.log", into(config.log_dir)},
      {"role", "", "NAME", "ROLE_NAME and the default prefix", into(config.role)},
      {"redirects", "-r", "SPEC", "streams that go only to files: 0-3, or RANK:0-3,...", into(config.redirects)},
      {"tee", "-t", "SPEC", "streams that go to files and the console", into(config.tee)},
      {"local-ranks-filter", "", "RANKS", "only these on the console", into(config.local_ranks_filter)},
      {"duplicate-stdout-filters", "", "LIST", "copy such lines to filtered_stdout.log", into(config.stdout_filters)},
      {"duplicate-stderr-filters", "", "LIST", "copy such lines to filtered_stderr.log", into(config.stderr_filters)},
      {"log-prefix", "", "TEXT", "template of a tee'd line's prefix", into(config.log_prefix)},
      {"log-layout", "", "NAME", "ddprun or torchrun", into(config.log_layout)},
      {"log-size", "", "BYTES", "the most that one log file holds", into(config.log_size)},
      {"log-keep", "", "N", "full log files that stay", into(config.log_keep)},
      {"rdzv-id", "", "ID", "name of the job (default: a random one)", into(config.rdzv_id)},
      {"master-addr", "", "HOST", "what workers find as MASTER_ADDR (default 127.0.0.1)", into(config.master_addr)},
      {"master-port", "", "PORT", "port of the store (default: a free one each round)", into(config.master_port)},
      {"verbose", "-v", "", "show every event and action on stderr", sets(config.verbose)},
  };
}

std::string underscored(std::string name) {
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

std::string environment_twin(const std::string& name) {
  std::string twin = "PET_" + underscored(name);
  std::transform(twin.begin(), twin.end(), twin.begin(), [](unsigned char c) { return std::toupper(c); });
  return twin;
}

std::string spellings(const OptionRow& row) {
  std::string all = std::string("--") + row.name;
  if (const std::string other = underscored(row.name); other != row.name) all += ",--" + other;
  for (const std::string& extra : CLI::detail::split(row.also, ','))
    if (!extra.empty()) {
      all += "," + extra;
      if (const std::string other = "--" + underscored(extra.substr(2)); extra.starts_with("--") && other != extra)
        all += "," + other;
    }
  return all;
}

std::string help_text(const std::vector<OptionRow>& table) {
  std::string text = std::string(
                         "Starts the workers of a distributed training job and brings them back when one dies.\n\n"
                         "usage: ") +
                     kUsage + "\n\n";
  for (const OptionRow& row : table) {
    std::string left = std::string("  --") + row.name + (*row.value ? std::string(" ") + row.value : "");
    if (std::string_view(row.also).size() == 2) left += std::string(", ") + row.also;  // the longer ones are aliases
    text += left + std::string(left.size() < 26 ? 26 - left.size() : 1, ' ') + row.help + "\n";
  }
  return text +
         "  --help, --version\n\n"
         "Underscores work like dashes; PET_NPROC_PER_NODE=4 in the environment works, too.\n"
         "PROGRAM is a .py file, any executable, or train, which comes with ddprun:\n"
         "  ddprun --nproc-per-node=2 train\n";
}

// Levenshtein distance: how many letters to change, add or drop.
std::size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j)
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])}));
  }
  return row.back();
}

std::string unknown_option(const std::string& word, const std::vector<OptionRow>& table) {
  std::string typed = word.substr(0, word.find('='));
  std::replace(typed.begin(), typed.end(), '_', '-');
  std::string nearest;
  std::size_t best = 4;  // farther off it is no typo
  for (const OptionRow& row : table)
    if (const std::size_t d = distance(typed, std::string("--") + row.name); d < best) {
      best = d;
      nearest = std::string("--") + row.name;
    }
  return "There is no option " + word.substr(0, word.find('=')) +
         (nearest.empty() ? "; ddprun --help lists them." : "; did you mean " + nearest + "?");
}

bool typed(const OptionRow& row, const std::vector<std::string>& arguments) {
  const std::vector<std::string> ours = CLI::detail::split(spellings(row), ',');
  return std::any_of(arguments.begin(), arguments.end(), [&](const std::string& word) {
    return std::find(ours.begin(), ours.end(), word.substr(0, word.find('='))) != ours.end();
  });
}

// The parser's message with a full stop, and the variable it came from where nobody typed the option.
std::string sentence(const CLI::ParseError& error, const std::vector<OptionRow>& table,
                     const std::vector<std::string>& arguments) {
  std::string text = error.what();
  if (!text.ends_with('.')) text += '.';
  for (const OptionRow& row : table) {
    const std::string twin = environment_twin(row.name);
    if (text.find(std::string("--") + row.name) == std::string::npos || typed(row, arguments) ||
        !std::getenv(twin.c_str()))
      continue;
    return text + " It comes from " + twin + " in the environment.";
  }
  return text;
}

}  // namespace

std::variant<Config, Answer, Mistakes> parse(const std::vector<std::string>& arguments) {
  Config config;
  const std::vector<OptionRow> table = option_table(config);
  CLI::App app;
  app.set_help_flag();
  app.prefix_command();  // the first word that is no option of ours starts the program's part
  bool help = false, version = false;
  app.add_flag("--help,-h", help);
  app.add_flag("--version", version);
  for (const OptionRow& row : table)
    row.add(app, spellings(row))
        ->envname(environment_twin(row.name))
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));  // CLI11 takes them from the back
  } catch (const CLI::ParseError& error) {
    return Mistakes{{sentence(error, table, arguments)}};
  }
  if (help) return Answer{help_text(table)};
  if (version) return Answer{kVersion};
  config.program = app.remaining();
  if (!config.program.empty() && config.program.front() == "--")
    config.program.erase(config.program.begin());
  else if (!config.program.empty() && config.program.front().starts_with("-"))
    return Mistakes{{unknown_option(config.program.front(), table)}};
  return config;
}

}  // namespace ddprun

#include "launcher/jobs/job_words.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <map>
#include <optional>

#include "launcher/config/command_names.h"
#include "launcher/config/options.h"
#include "launcher/settings/verb_help.h"
#include "rendezvous/base/spelling.h"
#include "rendezvous/base/suggestion.h"

namespace ddprun::launcher {
namespace {

constexpr double kWatchSecondsMin = 0.1, kWatchSecondsMax = 3600;
const std::string kWatchEvery = "1";

void add_file(CLI::App& app, JobWords& words) {
  app.add_option("file", words.file, "the job's file (docs/jobs.md)")->type_name("FILE");
  app.add_option("--set", words.overrides,
                 "sets a value of the file: --set max-restarts=5, --set hyperparameters.lr=0.1")
      ->type_name("KEY=VALUE")
      ->type_size(1)
      ->allow_extra_args(false);
  app.add_flag("--dry-run", words.dry_run, "prints what would be started, byte for byte, and starts nothing");
}

// Options of ddprun that say where a job is, and by which right one asks.
void add_access(CLI::App& app, JobWords& words) {
  const std::pair<const char*, const char*> all[] = {
      {"rdzv-endpoint", "HOST:PORT: asks an agent of a job on other machines; JOB is its --rdzv-id"},
      {"rdzv-backend", "etcd: the endpoint is etcd's, which knows where the job's coordinator is"},
      {"rdzv-conf", "K=V,...: how to reach etcd (docs/etcd.md)"},
      {"token-file", "the job's token; DDPRUN_TOKEN is taken, too"},
      {"tls-cert", "certificates instead, with"},
      {"tls-key", "their key"},
      {"tls-ca", "and who has signed them"}};
  const std::map<std::string, const char*> types{
      {"rdzv-endpoint", "ENDPOINT"}, {"rdzv-backend", "NAME"}, {"rdzv-conf", "K=V"}};
  for (const auto& [name, description] : all) {
    const auto type = types.find(name);
    if (words.command == "list" && type == types.end()) continue;  // no agent is asked
    const std::string dashes = std::string("--") + name;
    std::string spellings = dashes;
    if (const std::string other = "--" + with_underscores(name); other != dashes) spellings += "," + other;
    app.add_option_function<std::string>(
           spellings, [&words, dashes](const std::string& value) { words.access.push_back(dashes + "=" + value); },
           description)
        ->type_name(type == types.end() ? "FILE" : type->second);
  }
}

// What is read as text first, so that a wrong value is answered in our words.
struct Texts {
  std::string to = {};
  std::optional<std::string> rank = {}, watch = {};
};

void add_options(CLI::App& app, JobWords& words, Texts& texts) {
  const std::string& command = words.command;
  app.set_help_flag("-h,--help", "prints this");
  if (command == "run" || command == "submit") add_file(app, words);
  if (command == "run") {  // for scripts that submit writes
    app.add_option("--record", words.record, "")->group("");
    app.add_option("--token-file", words.token_file, "")->group("");
  }
  if (command == "submit") {
    app.add_option("--to", texts.to, "here, ssh, slurm or k8s (default here)")->type_name("PLACE");
    app.add_flag("--wait", words.wait, "shows the output, and ends with the job's exit code");
  }
  if (command == "status" || command == "top")
    app.add_option("job", words.handle,
                   "a handle, an id, a job's name, the --rdzv-id of a job here or a ddprun's process id; left out: the "
                   "one that was started last")
        ->type_name("JOB");
  if (command == "describe" || command == "log" || command == "cancel")
    app.add_option("job", words.handle,
                   std::string("a handle, an id, a job's name or its --rdzv-id; left out: the newest job") +
                       (command == "describe" ? "" : " of a file") +
                       (command == "cancel" ? ", unless several have not ended" : ""))
        ->type_name("JOB");
  if (command == "log") {
    app.add_option(
           "--rank", texts.rank,
           "what this rank has printed last, 1 MiB at most, on whatever host it runs; without JOB of the newest "
           "job that runs here")
        ->type_name("N");
    app.add_flag("-f,--follow", words.follow, "goes on until the job ends");
  }
  if (command == "status" || command == "top" || command == "log" || command == "list") add_access(app, words);
  if (command == "status")
    app.add_option("-w,--watch", texts.watch, "again each second or so, in place, until the job ends or q is pressed")
        ->type_name("[SECONDS]");
  if (command == "top")
    app.add_option("--file", words.from, "shows what ddprun status --json has written to a file")->type_name("FILE");
  if (command == "status" || command == "describe" || command == "list") app.add_flag("--json", words.json, "as JSON");
}

void describe_usage(CLI::App& app, const std::string& command) {
  const bool takes_file = command == "run" || command == "submit";
  app.formatter(settings::verb_help("ddprun " + command +
                                    (takes_file          ? " FILE [options] [-- ARGUMENTS]"
                                     : command == "list" ? " [options]"
                                                         : " [JOB] [options]")));
  app.footer((takes_file ? "Words behind -- are further arguments of the program.\n" : "") +
             ("To run a program of that name: ddprun ./" + command));
}

// Of those that its help shows.
std::vector<std::string> long_options(const CLI::App& app) {
  std::vector<std::string> out;
  for (const CLI::Option* option : app.get_options())
    if (!option->get_group().empty() && !option->get_lnames().empty())
      out.push_back("--" + option->get_lnames().front());
  return out;
}

// People bring options of ddprun, which a job's file has as keys.
std::string about_unknown(const CLI::App& app, const std::string& command, const std::string& word) {
  const std::string name = word.substr(std::min(word.find_first_not_of('-'), word.size()));
  const std::string bare = name.substr(0, name.find('='));
  const settings::Option* option = settings::find_option(options(), bare);
  if ((command == "run" || command == "submit") && option && settings::in_file(*option))
    return "the option --" + bare + " is a key of the job's file here: --set " + bare +
           (option->flag() ? "=true" : "=VALUE") + ".";
  return no_option(word, long_options(app), "ddprun " + command);
}

std::string about_extras(const CLI::App& app, const JobWords& words, const std::vector<std::string>& extras) {
  const auto option =
      std::find_if(extras.begin(), extras.end(), [](const auto& word) { return word.starts_with('-'); });
  if (option != extras.end()) return about_unknown(app, words.command, *option);
  if (words.command == "run" || words.command == "submit")
    return "'" + visible(extras.front()) + "' is one word too many: arguments of the program come behind --.";
  return "'" + visible(extras.front()) + "' is one word too many.";
}

// Empty: it is none.
std::optional<int> rank_in(const std::string& text) {
  int rank = 0;
  const auto end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, rank);
  return !text.empty() && read.ec == std::errc() && read.ptr == end && rank >= 0 ? std::optional(rank) : std::nullopt;
}

// CLI11 would take a JOB behind --watch for its value. A word behind it that is a number is.
void give_watch_a_value(std::vector<std::string>& words) {
  for (std::size_t i = 1; i < words.size() && words[i] != "--"; ++i) {
    if (words[i] != "-w" && words[i] != "--watch") continue;
    const bool has_value = i + 1 < words.size() && !words[i + 1].empty() &&
                           words[i + 1].find_first_not_of("0123456789.") == std::string::npos;
    words[i] = "--watch=" + (has_value ? words[i + 1] : kWatchEvery);
    if (has_value) words.erase(words.begin() + static_cast<std::ptrdiff_t>(i) + 1);
  }
}

void check_watch(JobWords& words, const std::optional<std::string>& text) {
  if (!text) return;
  double seconds = 0;
  const auto end = text->data() + text->size();
  const auto read = std::from_chars(text->data(), end, seconds);
  const bool is_number = !text->empty() && read.ec == std::errc() && read.ptr == end;
  words.watch = seconds;
  if (!is_number || !(seconds >= kWatchSecondsMin && seconds <= kWatchSecondsMax))
    words.mistake =
        "--watch is '" + visible(*text) + "'; it takes seconds, from 0.1 to 3600. A job's process id goes before it.";
  else if (words.json && words.mistake.empty())
    words.mistake = "it takes --watch or --json, not both.";
}

void check_rank(JobWords& words, const std::optional<std::string>& rank) {
  if (rank) words.rank = rank_in(*rank);
  if (rank && !words.rank)
    words.mistake = "--rank is '" + visible(*rank) + "'; it takes the number of a rank, such as 0.";
  else if (words.command == "log" && words.mistake.empty() && !words.access.empty() && !words.rank)
    words.mistake = "it takes --rank with --rdzv-endpoint: of a job elsewhere the output of one rank can be had.";
}

void check(const CLI::App& app, JobWords& words, const std::string& to) {
  const bool takes_file = words.command == "run" || words.command == "submit";
  if (takes_file && words.file.empty() == words.record.empty())
    words.mistake = words.file.empty() ? "it takes the job's file: ddprun " + words.command + " job.toml."
                                       : "it takes a file or --record, not both.";
  else if (!words.token_file.empty() && words.record.empty())
    words.mistake = about_unknown(app, words.command, "--token-file");
  const bool names_endpoint = std::any_of(words.access.begin(), words.access.end(),
                                          [](const std::string& word) { return word.starts_with("--rdzv-endpoint"); });
  if (!words.access.empty() && !names_endpoint)
    words.mistake = "it takes --rdzv-endpoint with " + words.access.front().substr(0, words.access.front().find('=')) +
                    ": where is the job?";
  if (to.empty()) return;
  const auto place = place_named(to);
  if (place)
    words.to = *place;
  else
    words.mistake = "--to is '" + visible(to) + "'; it takes here, ssh, slurm or k8s." +
                    did_you_mean(to, {"here", "ssh", "slurm", "k8s"});
}

}  // namespace

JobWords read_job_words(std::vector<std::string> all) {
  JobWords words;
  words.command = all.front();
  Texts texts;
  if (words.command == "status") give_watch_a_value(all);
  CLI::App app(description_of(words.command), "ddprun " + words.command);
  add_options(app, words, texts);
  describe_usage(app, words.command);
  app.allow_extras();
  const auto end = std::find(all.begin(), all.end(), "--");
  if (end != all.end()) words.arguments.assign(end + 1, all.end());
  std::vector<std::string> reversed(std::make_reverse_iterator(end), std::make_reverse_iterator(all.begin() + 1));
  try {
    app.parse(reversed);
    if (const auto extras = app.remaining(); !extras.empty()) words.mistake = about_extras(app, words, extras);
    if (words.mistake.empty()) check(app, words, texts.to);
    if (words.mistake.empty()) check_rank(words, texts.rank);
    if (words.mistake.empty()) check_watch(words, texts.watch);
  } catch (const CLI::CallForHelp&) {
    words.answer = app.help();
  } catch (const CLI::ParseError& error) {
    words.mistake = std::string(error.what()) + ".";
  }
  return words;
}

}  // namespace ddprun::launcher

#include "launcher/chaos/chaos_words.h"

#include <algorithm>
#include <variant>

#include "launcher/settings/values.h"
#include "rendezvous/base/spelling.h"
#include "rendezvous/base/suggestion.h"

namespace ddprun::launcher {
namespace {

constexpr const char* kChaosUsage =
    "usage: ddprun chaos [JOB] [options]\n"
    "Has a running job suffer faults, one after the other, and prints how it\n"
    "recovers. The job needs --allow-chaos.\n"
    "\n"
    "  --faults LIST            of kill, stop, segv, oom, cut, slow, disk, preempt\n"
    "                           (default all)\n"
    "  --seed N                 the same seed gives the same list of faults (default\n"
    "                           a random one, which is printed)\n"
    "  --every TIME             from one fault to the next, once the job has\n"
    "                           recovered (default 30s)\n"
    "  --for TIME, --count N    when to end (default at Ctrl-C, or with the job)\n"
    "  --limit TIME             for one recovery (default 120s)\n"
    "  --dry-run                prints the list, and does nothing\n"
    "  --ranks N                of which --dry-run prints it (default 8)\n"
    "  --json                   the table at the end as JSON\n"
    "\n"
    "JOB is what ddprun status takes; left out: your only job here. For a job of\n"
    "which no node is on this machine, whose --rdzv-id is JOB:\n"
    "  --rdzv-endpoint HOST:PORT\n"
    "                           where one of its agents is, or where etcd is:\n"
    "  --rdzv-backend etcd, --rdzv-conf K=V,...\n"
    "  --token-file FILE        the job's token, or certificates: --tls-cert FILE,\n"
    "                           --tls-key FILE and --tls-ca FILE\n"
    "\n"
    "To run a program of that name: ddprun ./chaos\n";

constexpr const char* kValues[] = {"faults",     "seed",     "every",         "for",          "count",
                                   "limit",      "ranks",    "rdzv-endpoint", "rdzv-backend", "rdzv-conf",
                                   "token-file", "tls-cert", "tls-key",       "tls-ca"};
constexpr int kCountMax = 1 << 20;

std::vector<std::string> fault_names() {
  std::vector<std::string> out;
  for (const rendezvous::NamedFault& fault : rendezvous::kFaults) out.emplace_back(fault.name);
  return out;
}

void take_faults(const std::string& text, ChaosWords& out) {
  for (const std::string& name : split(text, ',')) {
    const auto fault = rendezvous::fault_named(name);
    if (!fault)
      return void(out.mistake = "--faults names '" + visible(name) + "'; it takes " +
                                settings::joined(fault_names(), ", ") + "." + did_you_mean(name, fault_names()));
    if (std::find(out.faults.begin(), out.faults.end(), *fault) == out.faults.end()) out.faults.push_back(*fault);
  }
}

Duration take_time(const std::string& name, const std::string& text, ChaosWords& out) {
  const auto read = settings::read_duration(text);
  const auto* time = std::get_if<Duration>(&read);
  if (time && *time > Duration::zero()) return *time;
  const auto* wrong = std::get_if<settings::Wrong>(&read);
  out.mistake = settings::invalid_value("--" + name, text, wrong ? wrong->complaint : "it takes a time above 0");
  return {};
}

int take_count(const std::string& name, const std::string& text, ChaosWords& out) {
  const auto count = settings::whole_text<int>(text);
  if (count && *count > 0 && *count <= kCountMax) return *count;
  out.mistake = settings::invalid_value("--" + name, text, "it takes a whole number from 1 up");
  return 1;
}

void take_value(const std::string& name, const std::string& value, ChaosWords& out) {
  if (name == "faults") return take_faults(value, out);
  if (name == "every") return void(out.every = take_time(name, value, out));
  if (name == "limit") return void(out.limit = take_time(name, value, out));
  if (name == "for") return void(out.time = take_time(name, value, out));
  if (name == "count") return void(out.count = take_count(name, value, out));
  if (name == "ranks") return void(out.ranks = take_count(name, value, out));
  if (name != "seed") return out.access.push_back("--" + name + "=" + value);
  out.seed = settings::whole_text<std::uint64_t>(value);
  if (!out.seed) out.mistake = settings::invalid_value("--seed", value, "it takes a whole number from 0 up");
}

std::vector<std::string> option_names() {
  std::vector<std::string> out{"--dry-run", "--json"};
  for (const char* name : kValues) out.push_back(std::string("--") + name);
  return out;
}

// Takes an option and its value.
void take_option(const std::vector<std::string>& words, std::size_t& at, ChaosWords& out) {
  const std::string& word = words[at];
  const std::size_t equals = word.find('=');
  const std::string name = with_dashes(word.substr(2, equals == word.npos ? equals : equals - 2));
  if (name == "dry-run" && equals == word.npos) return void(out.dry_run = true);
  if (name == "json" && equals == word.npos) return void(out.json = true);
  if (std::ranges::find(kValues, name) == std::end(kValues))
    return void(out.mistake = no_option(word, option_names(), "ddprun chaos"));
  if (equals == word.npos && at + 1 == words.size()) return void(out.mistake = "--" + name + " needs a value.");
  take_value(name, equals == word.npos ? words[++at] : word.substr(equals + 1), out);
}

}  // namespace

ChaosWords read_chaos_words(const std::vector<std::string>& words) {
  ChaosWords out;
  for (std::size_t i = 0; i < words.size() && out.mistake.empty(); ++i) {
    if (words[i] == "--help" || words[i] == "-h") return {.answer = kChaosUsage};
    if (words[i].starts_with("--"))
      take_option(words, i, out);
    else if (out.job.empty())
      out.job = words[i];
    else
      out.mistake = "'" + visible(words[i]) + "' is one word too many.";
  }
  if (!out.mistake.empty()) return out;
  if (out.time && out.count) out.mistake = "--for and --count exclude each other: leave out one of them.";
  if (!out.access.empty() && std::none_of(out.access.begin(), out.access.end(),
                                          [](const std::string& word) { return word.starts_with("--rdzv-endpoint"); }))
    out.mistake = "it takes --rdzv-endpoint, too: where is the job?";
  if (out.faults.empty())
    for (const rendezvous::NamedFault& fault : rendezvous::kFaults) out.faults.push_back(fault.kind);
  return out;
}

}  // namespace ddprun::launcher

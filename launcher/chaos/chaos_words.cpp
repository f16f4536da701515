#include "launcher/chaos/chaos_words.h"

#include <algorithm>
#include <variant>

#include "launcher/settings/access_words.h"
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
    "\n";
constexpr const char* kChaosEnd =
    "\n"
    "To run a program of that name: ddprun ./chaos\n";

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
  if (name == "dry-run") return void(out.dry_run = true);
  if (name == "json") return void(out.json = true);
  out.seed = settings::whole_text<std::uint64_t>(value);
  if (!out.seed) out.mistake = settings::invalid_value("--seed", value, "it takes a whole number from 0 up");
}

}  // namespace

ChaosWords read_chaos_words(const std::vector<std::string>& words) {
  ChaosWords out;
  const WordsTaken taken = take_words(
      words, "ddprun chaos",
      {{"dry-run", false}, {"json", false}, {"faults"}, {"seed"}, {"every"}, {"for"}, {"count"}, {"limit"}, {"ranks"}},
      [&](const std::string& name, const std::string& value) { return take_value(name, value, out), out.mistake; });
  if (taken.help) return {.answer = std::string(kChaosUsage) + kAccessHelp + kChaosEnd};
  out.access = taken.access;
  if (!taken.plain.empty()) out.job = taken.plain.front();
  out.mistake = taken.mistake;
  if (!out.mistake.empty()) return out;
  if (taken.plain.size() > 1) out.mistake = "'" + visible(taken.plain[1]) + "' is one word too many.";
  if (out.time && out.count) out.mistake = "--for and --count exclude each other: leave out one of them.";
  if (out.faults.empty())
    for (const rendezvous::NamedFault& fault : rendezvous::kFaults) out.faults.push_back(fault.kind);
  return out;
}

}  // namespace ddprun::launcher

#include "launcher/jobs/places/slurm_words.h"

#include <algorithm>
#include <cstdio>
#include <map>

#include "launcher/jobs/places/place_words.h"
#include "launcher/jobs/places/slurm_container.h"
#include "launcher/settings/values.h"
#include "rendezvous/base/spelling.h"

namespace ddprun::launcher {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

// Slurm looks at times every 30 s and may be 60 s early.
constexpr seconds kSlurmWarning{120}, kSlurmEarly{60};
constexpr seconds kStartUp{60};  // until the nodes have met and the job's own time begins

// Why a word cannot be among them.
const std::map<std::string, std::string>& refused_words() {
  static const std::string kLogInRecord = "ddprun log reads the job's output in the record's file log";
  static const std::string kOneTask =
      "one ddprun runs on each node and starts the workers there: nproc-per-node says how many";
  static const std::map<std::string, std::string> kWords{
      {"wrap", "the script is ddprun's own"},
      {"array", "a job file is one job: submit it several times, with other values by --set"},
      {"parsable", "ddprun submit reads what sbatch prints"},
      {"quiet", "ddprun submit reads what sbatch prints"},
      {"test-only", "nothing would be submitted: pass --dry-run to ddprun submit"},
      {"wait", "ddprun submit --wait waits for the job"},
      {"output", kLogInRecord},
      {"error", kLogInRecord},
      {"input", "workers read nothing"},
      {"open-mode", "a job that is started again appends to its log"},
      {"chdir", "source_dir says where the workers run"},
      {"ntasks", kOneTask},
      {"ntasks-per-core", kOneTask},
      {"ntasks-per-gpu", kOneTask},
      {"ntasks-per-socket", kOneTask},
  };
  return kWords;
}

bool is_long_name(const std::string& name) {
  return name.size() > 1 &&
         std::all_of(name.begin(), name.end(),
                     [](unsigned char c) { return std::islower(c) || std::isdigit(c) || c == '-'; }) &&
         std::islower(static_cast<unsigned char>(name[0]));
}

std::string cannot_be_given(const std::string& name, const std::string& why) {
  return "[slurm] " + name + " cannot be given: " + why + ".";
}

bool has_line_end(const std::string& text) { return text.find_first_of("\n\r") != text.npos; }

std::string slurm_problem(const std::string& name, const std::string& value) {
  if (!is_long_name(name))
    return "[slurm] takes the long names of sbatch's options, as partition = \"gpu\"; '" + visible(name) + "' is none.";
  if (has_line_end(value)) return "[slurm] " + name + " has a line end in its value; sbatch takes one line.";
  if (const auto found = refused_words().find(name); found != refused_words().end())
    return cannot_be_given(name, found->second);
  if (name == "ntasks-per-node" && value != "1") return cannot_be_given(name, refused_words().at("ntasks"));
  if (name == "signal" && value.find(':') != value.npos)
    return "[slurm] signal is '" + visible(value) +
           "', which Slurm sends to the batch script; the workers' nodes must get it: signal = \"TERM@120\".";
  return "";
}

std::string sbatch_name(const std::string& name) { return with_dashes(name); }

// In a file's name Slurm replaces %j and the like.
std::string without_patterns(const std::string& path) {
  std::string out;
  for (const char c : path) out += c == '%' ? "%%" : std::string(1, c);
  return out;
}

seconds warning_of(const JobDescription& job) { return std::max(kSlurmWarning, stop_grace_of(job) + seconds(30)); }

SchedulerWords own_words(const JobDescription& job, bool about_container) {
  SchedulerWords out;
  for (const auto& [name, value] : job.slurm)
    if (is_container_word(sbatch_name(name), value) == about_container) out.emplace_back(sbatch_name(name), value);
  return out;
}

SchedulerWords default_words(const JobDescription& job, const std::string& record_folder, const SchedulerWords& own) {
  SchedulerWords out{{"job-name", job.name}, {"nodes", std::to_string(job.nodes)}, {"ntasks-per-node", "1"}};
  const std::string time = slurm_time_limit(job);
  if (!time.empty()) out.emplace_back("time", time);
  // To the ranks and not to the script.
  out.emplace_back("signal", "TERM@" + std::to_string(warning_of(job).count()));
  if (!has_word(own, "no-requeue")) out.emplace_back("requeue", "");
  out.emplace_back("open-mode", "append");
  if (!job.source_dir.empty()) out.emplace_back("chdir", job.source_dir);
  out.emplace_back("output", without_patterns(record_folder + "/log"));
  if (!job.tags.empty()) out.emplace_back("comment", settings::joined(job.tags, ","));
  return out;
}

}  // namespace

std::vector<std::string> slurm_problems(const JobDescription& job) {
  std::vector<std::string> out;
  for (const std::string& text : {job.source_dir, settings::joined(job.tags, ",")})
    if (has_line_end(text))
      out.push_back("'" + visible(text) + "' has a line end, and goes into a line of Slurm's script.");
  for (const auto& [name, value] : job.slurm)
    if (const std::string problem = slurm_problem(sbatch_name(name), value); !problem.empty()) out.push_back(problem);
  for (std::string& problem : container_problems(job, container_words(job))) out.push_back(std::move(problem));
  return out;
}

SchedulerWords container_words(const JobDescription& job) { return own_words(job, /*about_container=*/true); }

bool has_word(const SchedulerWords& words, const std::string& name) {
  return std::any_of(words.begin(), words.end(), [&](const auto& word) { return word.first == name; });
}

SchedulerWords sbatch_options(const JobDescription& job, const std::string& record_folder) {
  const SchedulerWords own = own_words(job, /*about_container=*/false);
  SchedulerWords out;
  for (auto& word : default_words(job, record_folder, own))
    if (!has_word(own, word.first)) out.push_back(std::move(word));
  out.insert(out.end(), own.begin(), own.end());
  return out;
}

std::string slurm_time_limit(const JobDescription& job) {
  if (!job.max_run) return "";
  // So that Slurm's warning comes after the job's own end.
  const auto all = std::chrono::ceil<minutes>(in_seconds(*job.max_run) + kStartUp + kSlurmEarly + warning_of(job));
  char text[32];
  std::snprintf(text, sizeof text, "%lld:%02lld:00", static_cast<long long>(all.count() / 60),
                static_cast<long long>(all.count() % 60));
  return text;
}

}  // namespace ddprun::launcher

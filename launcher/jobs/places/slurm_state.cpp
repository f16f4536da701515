#include "launcher/jobs/places/slurm_state.h"

#include <algorithm>
#include <map>
#include <sstream>
#include <vector>

#include "launcher/settings/values.h"
#include "rendezvous/base/spelling.h"

namespace ddprun::launcher {
namespace {

using Phase = PlaceState::Phase;
using Fields = std::map<std::string, std::string>;

constexpr int kSavedInSlurm = 75, kSignalCodes = 128;

// Of "JobState=PENDING Reason=None Dependency=(null)".
Fields fields_of_line(const std::string& line) {
  Fields out;
  std::istringstream words(line);
  for (std::string word; words >> word;)
    if (const std::size_t equals = word.find('='); equals != word.npos)
      out.emplace(word.substr(0, equals), word.substr(equals + 1));
  return out;
}

// Only lines that begin with one of these: a name or a comment may hold any text.
Fields fields_of_job(const std::string& text) {
  Fields out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    line = settings::trimmed(line);
    for (const char* first : {"JobState=", "Requeue=", "NodeList="})
      if (line.starts_with(first)) out.merge(fields_of_line(line));
  }
  return out;
}

Phase phase_of_slurm(const std::string& state) {
  static const std::map<std::string, Phase> kPhases{
      {"PENDING", Phase::queued},      {"CONFIGURING", Phase::queued},  {"REQUEUED", Phase::queued},
      {"REQUEUE_HOLD", Phase::queued}, {"REQUEUE_FED", Phase::queued},  {"RESV_DEL_HOLD", Phase::queued},
      {"RUNNING", Phase::running},     {"COMPLETING", Phase::running},  {"SUSPENDED", Phase::running},
      {"STOPPED", Phase::running},     {"SIGNALING", Phase::running},   {"STAGE_OUT", Phase::running},
      {"RESIZING", Phase::running},    {"COMPLETED", Phase::succeeded}, {"CANCELLED", Phase::stopped},
      {"PREEMPTED", Phase::preempted}, {"REVOKED", Phase::gone},
  };
  const auto found = kPhases.find(state);
  return found == kPhases.end() ? Phase::failed
                                : found->second;  // also TIMEOUT, NODE_FAIL, OUT_OF_MEMORY, SPECIAL_EXIT
}

std::string words_about(const std::string& state) {
  static const std::map<std::string, std::string> kWords{
      {"TIMEOUT", "its time limit was over before it had saved (TIMEOUT)"},
      {"NODE_FAIL", "a node was lost (NODE_FAIL)"},
      {"OUT_OF_MEMORY", "it needed more memory than it had asked for (OUT_OF_MEMORY)"},
      {"BOOT_FAIL", "a node did not boot (BOOT_FAIL)"},
      {"DEADLINE", "its deadline had passed (DEADLINE)"},
      {"SPECIAL_EXIT",
       "Slurm holds it, as another start would not help (SPECIAL_EXIT); scontrol release starts it again"},
      {"SUSPENDED", "suspended"},
      {"COMPLETING", "ending"},
      {"CANCELLED", "cancelled"},
  };
  const auto found = kWords.find(state);
  return found == kWords.end() ? "" : found->second;
}

// "75:0" is an exit code, "0:9" a signal.
std::optional<int> shell_code(const std::string& text) {
  const std::vector<std::string> parts = split(text, ':');
  const auto code = settings::whole_text<int>(parts[0]);
  if (!code || parts.size() != 2) return {};
  const int signal = settings::whole_text<int>(parts[1]).value_or(0);
  return signal > 0 ? kSignalCodes + signal : *code;
}

// sacct shows codes above 128 less 128, and ddprun has none of its own between 2 and 69.
std::optional<int> code_from_sacct(const std::string& text) {
  const auto code = shell_code(text);
  const bool was_a_signal = code && *code > 2 && *code < 64;
  return was_a_signal ? kSignalCodes + *code : code;
}

bool is_slurm_value(const std::string& text) {
  return !text.empty() && text != "(null)" && text != "None" && text != "None assigned";
}

// The code of an end that Slurm calls FAILED decides what it was.
PlaceState state_of_slurm(const std::string& state, const std::optional<int>& code) {
  PlaceState out{phase_of_slurm(state), words_about(state), {}, 0, {}};
  if (has_ended(out.phase) && out.phase != Phase::gone) out.exit_code = code;
  if (out.phase == Phase::failed && code == kSavedInSlurm) out.phase = Phase::preempted;
  return out;
}

}  // namespace

std::optional<PlaceState> state_from_scontrol(const std::string& text) {
  Fields fields = fields_of_job(text);
  if (!fields.contains("JobState")) return {};
  PlaceState out = state_of_slurm(fields["JobState"], shell_code(fields["ExitCode"]));
  out.requeues = settings::whole_text<int>(fields["Restarts"]).value_or(0);
  if (out.phase == Phase::queued && is_slurm_value(fields["Reason"])) out.detail = "waiting: " + fields["Reason"];
  if (is_slurm_value(fields["NodeList"])) out.where = fields["NodeList"];
  return out;
}

std::optional<PlaceState> state_from_sacct(const std::string& text) {
  std::vector<std::string> starts = split(text, '\n');
  std::erase(starts, "");
  if (starts.empty()) return {};
  const std::vector<std::string> fields = split(starts.back(), '|');
  if (fields.size() < 3) return {};
  PlaceState out =
      state_of_slurm(fields[0].substr(0, fields[0].find(' ')), code_from_sacct(fields[1]));  // "CANCELLED by 0"
  out.requeues = static_cast<int>(starts.size()) - 1;
  if (is_slurm_value(fields[2])) out.where = fields[2];
  return out;
}

std::optional<int> kill_wait_from_config(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name, equals;
    int seconds = 0;
    if (words >> name >> equals >> seconds && name == "KillWait") return seconds;
  }
  return {};
}

}  // namespace ddprun::launcher

#include "launcher/jobs/places/slurm_state.h"

#include <algorithm>
#include <array>
#include <map>
#include <regex>
#include <sstream>
#include <string_view>
#include <vector>

#include "launcher/settings/values.h"
#include "rendezvous/base/spelling.h"

namespace ddprun::launcher {
namespace {

using Phase = PlaceState::Phase;
using Fields = std::map<std::string, std::string>;

constexpr int kSavedInSlurm = 75, kSignalCodes = 128;
constexpr std::string_view kPrompt = "scontrol: ";
constexpr std::array kLostAnswers{"timed out", "Zero Bytes", "Unable to contact", "Connection reset", "ommunication"};

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

// What it says where slurmctld may have got the job, and its answer has not come. A refused connection has sent none.
bool lost_its_answer(const std::string& text) {
  if (text.find("connect failure") != text.npos) return false;
  return std::any_of(kLostAnswers.begin(), kLostAnswers.end(),
                     [&](const char* one) { return text.find(one) != text.npos; });
}

PlaceState state_of_starts(const std::vector<std::vector<std::string>>& starts) {
  const std::vector<std::string>& last = starts.back();
  PlaceState out = state_of_slurm(last[1].substr(0, last[1].find(' ')), code_from_sacct(last[2]));  // "CANCELLED by 0"
  out.requeues = static_cast<int>(starts.size()) - 1;
  if (is_slurm_value(last[3])) out.where = last[3];
  return out;
}

}  // namespace

bool is_slurm_id(const std::string& id) {
  static const std::regex kId("[1-9][0-9]{0,9}(;[A-Za-z0-9_.][A-Za-z0-9_.-]*)?");
  return std::regex_match(id, kId);
}

// Sites wrap sbatch, so its line may have others around it.
SbatchAnswer answer_of_sbatch(const ProgramEnd& end) {
  SbatchAnswer out;
  for (const std::string& line : split(end.out, '\n'))
    if (const std::string word = settings::trimmed(line); is_slurm_id(word)) out.id = word;
  const bool failed = end.how == ProgramEnd::How::not_found || (end.how == ProgramEnd::How::exited && end.code != 0);
  out.refused = out.id.empty() && failed && !lost_its_answer(end.err + end.out);
  return out;
}

std::optional<PlaceState> state_from_scontrol(const std::string& text) {
  Fields fields = fields_of_job(text);
  if (!fields.contains("JobState")) return {};
  PlaceState out = state_of_slurm(fields["JobState"], shell_code(fields["ExitCode"]));
  out.requeues = settings::whole_text<int>(fields["Restarts"]).value_or(0);
  if (out.phase == Phase::queued && is_slurm_value(fields["Reason"])) out.detail = "waiting: " + fields["Reason"];
  if (is_slurm_value(fields["NodeList"])) out.where = fields["NodeList"];
  return out;
}

std::map<std::string, std::string> jobs_of_scontrol(const std::string& text) {
  std::map<std::string, std::string> out;
  std::string* job = nullptr;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    while (line.starts_with(kPrompt)) line.erase(0, kPrompt.size());
    const std::string id = line.substr(0, line.find(' '));
    if (id.starts_with("JobId=")) job = &out[id.substr(6)];
    if (job) *job += line + "\n";
  }
  return out;
}

std::map<std::string, PlaceState> states_from_sacct(const std::string& text) {
  std::map<std::string, std::vector<std::vector<std::string>>> starts;
  for (const std::string& line : split(text, '\n'))
    if (std::vector<std::string> fields = split(line, '|'); fields.size() >= 4)
      starts[fields[0]].push_back(std::move(fields));
  std::map<std::string, PlaceState> out;
  for (const auto& [id, all] : starts) out.emplace(id, state_of_starts(all));
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

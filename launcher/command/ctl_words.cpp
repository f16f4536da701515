#include "launcher/command/ctl_words.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "launcher/settings/access_words.h"
#include "rendezvous/base/spelling.h"
#include "rendezvous/base/suggestion.h"
#include "rendezvous/coordination/round/round.h"

namespace ddprun::launcher {
namespace {

using rendezvous::ActKind;

constexpr const char* kCtlUsage =
    "usage: ddprun ctl [JOB] ACT [options]\n"
    "Acts on a running job without a new start of it.\n"
    "\n"
    "  restart                  the workers save, and a new round begins\n"
    "  stop                     the workers save, and the job ends, as by SIGTERM\n"
    "  drain NODE               the workers save, and the job goes on without that\n"
    "                           node: a spare takes its place\n"
    "  admit NODE               a node that was drained or excluded may take part\n"
    "                           again\n"
    "  resize MIN:MAX           rounds have so many nodes from now on\n"
    "  add-workers [COUNT] [NODE], remove-workers [COUNT] [NODE]\n"
    "                           the workers save, and each node, or that one, goes\n"
    "                           on with so many more, or fewer\n"
    "  pause, resume            stops all workers where they are, and lets them go on\n"
    "  snapshot                 the workers save, and go on\n"
    "  stacks                   what every worker does, with its threads' stacks\n"
    "\n"
    "NODE is a name or a group rank.\n";
constexpr const char* kCtlEnd =
    "\n"
    "To run a program of that name: ddprun ./ctl\n";

constexpr int kNodesMax = 1 << 20;

std::vector<std::string> act_names() {
  std::vector<std::string> out{"stacks"};
  for (const auto& act : rendezvous::kActs)
    if (act.kind != ActKind::fault) out.emplace_back(act.name);  // ddprun chaos
  return out;
}

bool is_act(const std::string& word) {
  const auto names = act_names();
  return std::find(names.begin(), names.end(), with_dashes(word)) != names.end();
}

std::string no_act(const std::string& word, const std::string& then) {
  return "'" + visible(word) + "' is no act" + then + " ddprun ctl --help lists them.";
}

// The only word: an act with a typo, or a job's name.
std::string no_act_alone(const std::string& word) {
  const std::string hint = did_you_mean(word, act_names());
  return no_act(word, hint.empty() ? "; after a job's name it takes one." : "." + hint);
}

// 0: it is none.
int count_of(const std::string& text) {
  if (text.empty() || text.size() > 7 || text.find_first_not_of("0123456789") != text.npos) return 0;
  const int count = std::atoi(text.c_str());  // NOLINT(bugprone-unchecked-string-to-number-conversion): digits
  return count <= kNodesMax ? count : 0;
}

// "2:4", or "3" for both.
bool read_sizes(const std::string& text, rendezvous::Act& act) {
  const std::size_t colon = text.find(':');
  act.nodes_min = count_of(text.substr(0, colon));
  act.nodes_max = colon == text.npos ? act.nodes_min : count_of(text.substr(colon + 1));
  return act.nodes_min > 0 && act.nodes_max >= act.nodes_min;
}

// "2", "node7", "2 node7", or nothing, which is one on each node.
void take_workers(const std::string& name, const std::vector<std::string>& rest, CtlWords& out) {
  const bool counts = !rest.empty() && rest.front().find_first_not_of("0123456789") == std::string::npos;
  out.act.workers = counts ? count_of(rest.front()) : 1;
  if (out.act.workers < 1 || out.act.workers > rendezvous::kWorkersMax)
    out.mistake = "'" + visible(rest.front()) + "' is no number of workers: ddprun ctl " + name + " 2.";
  else if (rest.size() > (counts ? 2 : 1))
    out.mistake = "'" + visible(rest[counts ? 2 : 1]) + "' is one word too many.";
  else if (rest.size() > (counts ? 1 : 0))
    out.act.node = rest.back();
}

void take_argument(const std::string& name, const std::vector<std::string>& rest, CtlWords& out) {
  if (changes_workers(out.act.kind)) return take_workers(name, rest, out);
  const bool needs_node = out.act.kind == ActKind::drain || out.act.kind == ActKind::admit;
  const bool needs_sizes = !out.stacks && out.act.kind == ActKind::resize;
  const std::size_t wanted = !out.stacks && (needs_node || needs_sizes) ? 1 : 0;
  if (rest.size() > wanted)
    out.mistake = "'" + visible(rest[wanted]) + "' is one word too many.";
  else if (rest.size() < wanted)
    out.mistake = name + (needs_sizes ? " takes the numbers of nodes: ddprun ctl resize 2:4."
                                      : " takes a node: its name or its group rank, as ddprun status shows them.");
  else if (needs_sizes && !read_sizes(rest.front(), out.act))
    out.mistake = "the numbers of nodes are '" + visible(rest.front()) + "'; they are MIN:MAX, such as 2:4.";
  else if (wanted == 1 && needs_node)
    out.act.node = rest.front();
}

}  // namespace

CtlWords read_ctl_words(const std::vector<std::string>& words) {
  CtlWords out;
  const WordsTaken taken = take_words(words, "ddprun ctl", {}, {});
  if (taken.help) return {.answer = std::string(kCtlUsage) + kAccessHelp + kCtlEnd};
  out.access = taken.access;
  out.mistake = taken.mistake;
  if (!out.mistake.empty()) return out;
  const std::vector<std::string>& plain = taken.plain;
  // A job may be called as an act is: then the act follows.
  const bool names_job = plain.size() > 1 && is_act(plain[1]) &&
                         !(is_act(plain[0]) && plain.size() == 2 && (plain[0] == "drain" || plain[0] == "admit"));
  const std::size_t act = !plain.empty() && (names_job || !is_act(plain[0])) ? 1 : 0;
  if (act == 1) out.job = plain[0];
  if (plain.size() <= act) {
    out.mistake = plain.empty() ? "it takes an act: ddprun ctl --help lists them." : no_act_alone(plain[0]);
    return out;
  }
  const std::string name = is_act(plain[act]) ? with_dashes(plain[act]) : plain[act];
  if (!is_act(name)) return out.mistake = no_act(name, "." + did_you_mean(name, act_names())), out;
  out.stacks = name == "stacks";
  if (!out.stacks) out.act.kind = *rendezvous::act_named(name);
  take_argument(name, {plain.begin() + static_cast<std::ptrdiff_t>(act) + 1, plain.end()}, out);
  return out;
}

std::string act_line(const std::string& act, const std::string& answer, const std::tm& when) {
  std::array<char, 16> time{};
  return std::string(time.data(), std::strftime(time.data(), time.size(), "%T", &when)) + " " + act + ": " + answer +
         ".";
}

}  // namespace ddprun::launcher

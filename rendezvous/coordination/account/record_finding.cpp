#include "rendezvous/coordination/account/record_finding.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "rendezvous/coordination/account/ranks_in_words.h"

namespace ddprun::rendezvous {
namespace {

constexpr const char* kDefaultGroup = "default_pg";

using Recorded = std::map<int, const Standing*>;  // those that have a record, by rank

Recorded recorded(const std::vector<Standing>& standings) {
  Recorded out;
  for (const Standing& one : standings)
    if (one.record && one.activity != Activity::ended) out[one.rank] = &one;
  return out;
}

const RecordedCall* first_open(const RecordedGroup& group) {
  const auto open = std::find_if(group.calls.begin(), group.calls.end(), [](const auto& call) { return !call.over; });
  return open == group.calls.end() ? nullptr : &*open;
}

bool is_message(const RecordedCall& call) { return call.to >= 0; }

const RecordedCall* collective(const RecordedGroup& group, std::uint64_t number) {
  for (const RecordedCall& call : group.calls)
    if (call.number == number && !is_message(call)) return &call;
  return nullptr;
}

// Of the others, ranks of one group may rightly pass tensors that differ: only one has those of a scatter.
bool compares_tensors(const std::string& operation) {
  return operation == "all_reduce" || operation == "broadcast" || operation == "reduce";
}

bool differ(const RecordedCall& a, const RecordedCall& b) {
  if (a.operation != b.operation) return true;
  return compares_tensors(a.operation) && std::tie(a.elements, a.type) != std::tie(b.elements, b.type);
}

std::string call_in_words(const RecordedCall& call, const RecordedGroup& group) {
  std::string out = call.operation + (call.number == 0 ? "" : " #" + std::to_string(call.number));
  if (is_message(call)) return out + (call.operation == "send" ? " to rank " : " from rank ") + std::to_string(call.to);
  const bool named = !group.description.empty() && group.description != "undefined";  // PyTorch's word for none
  if (named && group.description != kDefaultGroup)
    out += " of " + group.description;
  else if (!named && !group.ranks.empty())
    out += " of the group of " + ranks_in_words(group.ranks);
  return out + (call.tensors.empty() ? "" : " [" + call.tensors + "]");
}

// One call that is not over for some ranks.
struct OpenCall {
  const RecordedGroup* group = nullptr;
  RecordedCall call = {};
  std::vector<const Standing*> by = {};  // who wait in it
  std::vector<int> missing = {};         // who have not entered it
};
using OpenCalls = std::vector<OpenCall>;
using Groups = std::map<std::string, std::map<int, const RecordedGroup*>>;  // by name and rank

Groups groups_of(const Recorded& recorded) {
  Groups out;
  for (const auto& [rank, one] : recorded)
    for (const RecordedGroup& group : one->record->groups) out[group.name][rank] = &group;
  return out;
}

std::vector<int> ranks_of(const std::vector<const Standing*>& standings) {
  std::vector<int> out;
  for (const Standing* one : standings) out.push_back(one->rank);
  return out;
}

// Where the record does not tell a group's ranks, those that have used it, or all of the default one.
std::vector<int> members(const RecordedGroup& group, const Recorded& recorded, const Groups& groups) {
  if (!group.ranks.empty()) return group.ranks;
  std::vector<int> out;
  if (group.description == kDefaultGroup)
    for (const auto& [rank, one] : recorded) out.push_back(rank);
  else
    for (const auto& [rank, there] : groups.at(group.name)) out.push_back(rank);
  return out;
}

bool is_waited_for(const Standing& one, const OpenCall& open) {
  if (is_message(open.call)) return open.call.to == one.rank;
  const std::vector<int>& ranks = open.group->ranks;
  if (ranks.empty()) return open.group->description == kDefaultGroup;
  return std::find(ranks.begin(), ranks.end(), one.rank) != ranks.end();
}

// Those whose record is not known, among those that are waited for there.
std::size_t unknown_in(const OpenCall& open, const std::vector<Standing>& standings) {
  return std::count_if(standings.begin(), standings.end(), [&](const Standing& one) {
    return !one.record && one.activity != Activity::ended && is_waited_for(one, open);
  });
}

// The message that the rank reports to wait for ("recv 3"), as gloo records none; else `to` is -1.
RecordedCall message_of(const Standing& one) {
  RecordedCall call;
  if (one.activity != Activity::wait) return call;
  for (const std::string operation : {"recv", "send"})
    if (one.collective.starts_with(operation + " ")) {
      call.operation = operation;
      const char* const end = one.collective.c_str() + one.collective.size();
      if (std::from_chars(one.collective.c_str() + operation.size() + 1, end, call.to).ec != std::errc()) call.to = -1;
    }
  return call;
}

// Two that both receive, or both send, wait for each other.
bool is_at_other_end(const Standing& one, const RecordedCall& message, int other) {
  const auto meets = [&](const RecordedCall& call) {
    return call.to == other && !call.over && call.operation != message.operation;
  };
  if (meets(message_of(one))) return true;
  for (const RecordedGroup& group : one.record->groups)
    if (std::any_of(group.calls.begin(), group.calls.end(), meets)) return true;
  return false;
}

bool may_wait(const Standing& one, InCall in_call) {
  return !one.stopped && (in_call == InCall::by_its_record || one.activity == Activity::wait);
}

// Each message by itself; in a collective all are that have not left it.
OpenCalls open_calls(const Recorded& recorded, const Groups& groups, InCall in_call) {
  std::map<std::pair<std::string, std::uint64_t>, OpenCall> collectives;
  OpenCalls out;
  static const RecordedGroup none;
  for (const auto& [rank, one] : recorded) {
    if (!may_wait(*one, in_call)) continue;
    for (const RecordedGroup& group : one->record->groups) {
      const RecordedCall* call = first_open(group);
      if (!call) continue;
      if (is_message(*call)) {
        out.push_back({&group, *call, {one}});
        continue;
      }
      OpenCall& open = collectives.try_emplace({group.name, call->number}, OpenCall{&group, *call}).first->second;
      open.by.push_back(one);
    }
    if (RecordedCall message = message_of(*one); is_message(message)) out.push_back({&none, std::move(message), {one}});
  }
  for (OpenCall& open : out) {
    const auto other = recorded.find(open.call.to);
    if (other != recorded.end() && !is_at_other_end(*other->second, open.call, open.by.front()->rank))
      open.missing.push_back(open.call.to);
  }
  for (auto& [key, open] : collectives) {
    const auto& there = groups.at(open.group->name);
    for (const int rank : members(*open.group, recorded, groups)) {
      const auto theirs = there.find(rank);
      const bool entered = theirs != there.end() && theirs->second->entered >= open.call.number;
      if (!entered && recorded.contains(rank)) open.missing.push_back(rank);
    }
    out.push_back(std::move(open));
  }
  return out;
}

std::string call_in_words(const OpenCall& open) { return call_in_words(open.call, *open.group); }

std::string not_entered(const OpenCall& open) {
  if (is_message(open.call))
    return std::string(open.call.operation == "recv" ? "has not sent to" : "has not received from") + " rank " +
           std::to_string(open.by.front()->rank) + ", which waits for that";
  return "has not entered " + call_in_words(open) + ", in which " + ranks_in_words(ranks_of(open.by)) +
         (open.by.size() == 1 ? " waits" : " wait");
}

// Of several the one that most wait for. `busy`: that may not be blamed.
std::optional<RecordFinding> missing(const OpenCalls& calls, const std::set<int>& busy) {
  struct Missed {
    std::size_t by = 0;
    const OpenCall* first = nullptr;
  };
  std::map<int, Missed> missed;
  for (const OpenCall& open : calls)
    for (const int rank : open.missing)
      if (!busy.contains(rank)) {
        Missed& one = missed[rank];
        one.by += open.by.size();
        if (!one.first || open.by.size() > one.first->by.size()) one.first = &open;
      }
  const auto most = std::max_element(missed.begin(), missed.end(),
                                     [](const auto& a, const auto& b) { return a.second.by < b.second.by; });
  if (most == missed.end()) return {};
  const OpenCall& open = *most->second.first;
  return RecordFinding{most->first, ranks_of(open.by), "it " + not_entered(open)};
}

struct Part {  // of a group: ranks whose calls at one number are the same
  const RecordedCall* call = nullptr;
  std::vector<int> ranks = {};
  Duration youngest = Duration::max();
};
constexpr std::size_t kPartsMax = 16;

std::vector<Part> parts_of(const OpenCall& open, const Recorded& recorded, const Groups& groups) {
  std::vector<Part> parts;
  const auto& there = groups.at(open.group->name);
  for (const int rank : members(*open.group, recorded, groups)) {
    const auto theirs = there.find(rank);
    const RecordedCall* call = theirs == there.end() ? nullptr : collective(*theirs->second, open.call.number);
    if (!call) continue;
    auto part = std::find_if(parts.begin(), parts.end(), [&](const Part& one) { return !differ(*one.call, *call); });
    if (part == parts.end()) {
      if (parts.size() == kPartsMax) break;
      part = parts.insert(parts.end(), Part{call});
    }
    part->ranks.push_back(rank);
    part->youngest = std::min(part->youngest, recorded.at(rank)->age);
  }
  return parts;
}

// Most are where all should be; of two equal parts, the one that came first.
std::optional<RecordFinding> unlike(const OpenCalls& calls, const Recorded& recorded, const Groups& groups,
                                    const std::vector<Standing>& standings) {
  std::optional<RecordFinding> uncertain;
  for (const OpenCall& open : calls) {
    if (is_message(open.call)) continue;
    const std::vector<Part> parts = parts_of(open, recorded, groups);
    if (parts.size() < 2) continue;
    const auto [odd, most] = std::minmax_element(parts.begin(), parts.end(), [](const Part& a, const Part& b) {
      return std::tuple(a.ranks.size(), a.youngest) < std::tuple(b.ranks.size(), b.youngest);
    });
    const std::size_t unknown = unknown_in(open, standings);  // may be where the smaller part is
    RecordFinding found{odd->ranks.front(), most->ranks,
                        "it is in " + call_in_words(*odd->call, *open.group) + ", where " +
                            ranks_in_words(most->ranks) + (most->ranks.size() == 1 ? " is in " : " are in ") +
                            call_in_words(*most->call, *open.group),
                        unknown == 0 || most->ranks.size() > odd->ranks.size() + unknown};
    if (found.certain) return found;
    if (!uncertain) uncertain = std::move(found);
  }
  return uncertain;
}

// Who waits for a message of the next one, and so on until the last one waits for the first. Each may have left its own
// out: one of them stands for all.
std::optional<RecordFinding> ring_of_messages(const OpenCalls& calls) {
  std::map<int, const OpenCall*> messages;  // that a rank waits in
  for (const OpenCall& open : calls)
    if (is_message(open.call) && !open.missing.empty()) messages.try_emplace(open.by.front()->rank, &open);
  std::set<int> seen;
  for (const auto& [first, message] : messages) {
    std::vector<int> path;
    int rank = first;
    for (; messages.contains(rank) && seen.insert(rank).second; rank = messages.at(rank)->call.to) path.push_back(rank);
    const auto start = std::find(path.begin(), path.end(), rank);
    if (start == path.end()) continue;
    const int last = path.back();  // waits for `rank`
    std::vector<int> ring(start, path.end());
    std::sort(ring.begin(), ring.end());
    return RecordFinding{rank,
                         {last},
                         "it is in " + call_in_words(*messages.at(rank)) + " and " + not_entered(*messages.at(last)) +
                             "; " + ranks_in_words(ring) +
                             " wait for one another's messages, and each may have left its own out"};
  }
  return {};
}

// All that are waited for wait themselves: of those the one that has left a message out, and is not in another one, as
// who only passes on waits; else the one that is in a call with the fewest others, and came last.
std::optional<RecordFinding> in_a_ring(const OpenCalls& calls) {
  std::map<int, const OpenCall*> waited_for;  // messages before collectives
  for (const OpenCall& open : calls)
    for (const int rank : open.missing) waited_for.try_emplace(rank, &open);
  const OpenCall* is_in = nullptr;
  const Standing* odd = nullptr;
  const auto key = [&](const OpenCall& open, const Standing& one) {
    return std::tuple(!is_message(waited_for.at(one.rank)->call), is_message(open.call), open.by.size(), one.age);
  };
  for (const OpenCall& open : calls)
    for (const Standing* one : open.by) {
      if (open.missing.empty() || !waited_for.contains(one->rank)) continue;
      if (odd && key(*is_in, *odd) <= key(open, *one)) continue;
      is_in = &open;
      odd = one;
    }
  if (!odd) return {};
  const OpenCall& others = *waited_for.at(odd->rank);
  return RecordFinding{odd->rank, ranks_of(others.by),
                       "it is in " + call_in_words(*is_in) + " and " + not_entered(others)};
}

}  // namespace

std::optional<RecordFinding> find_in_records(const std::vector<Standing>& standings, InCall in_call) {
  const Recorded all = recorded(standings);
  const Groups groups = groups_of(all);
  const OpenCalls calls = open_calls(all, groups, in_call);
  std::set<int> waiting, in_vain;
  for (const OpenCall& open : calls)
    for (const Standing* one : open.by) {
      waiting.insert(one->rank);
      if (!open.missing.empty()) in_vain.insert(one->rank);
    }
  if (auto found = missing(calls, waiting)) return found;
  if (auto found = unlike(calls, all, groups, standings)) return found;
  auto found = missing(calls, in_vain);
  if (!found) found = ring_of_messages(calls);
  if (!found) found = in_a_ring(calls);
  // Any of these may wait, in the end, for one whose record is not known.
  if (found)
    found->certain =
        std::all_of(calls.begin(), calls.end(), [&](const auto& open) { return !unknown_in(open, standings); });
  return found;
}

}  // namespace ddprun::rendezvous

#include "rendezvous/coordination/record_finding.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "rendezvous/coordination/ranks_in_words.h"

namespace ddprun::rendezvous {
namespace {

using Recorded = std::map<int, const Standing*>;  // those that have a record, by rank

Recorded recorded(const std::vector<Standing>& standings) {
  Recorded out;
  for (const Standing& one : standings)
    if (one.record && one.activity != Activity::ended) out[one.rank] = &one;
  return out;
}

const RecordedGroup* group_named(const Standing& of, const std::string& name) {
  for (const RecordedGroup& group : of.record->groups)
    if (group.name == name) return &group;
  return nullptr;
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
  if (named && group.description != "default_pg")
    out += " of " + group.description;
  else if (!named && !group.ranks.empty())
    out += " of the group of " + ranks_in_words(group.ranks);
  return out + (call.tensors.empty() ? "" : " [" + call.tensors + "]");
}

struct Wait {
  const Standing* by = nullptr;
  const RecordedGroup* group = nullptr;
  RecordedCall call = {};
  std::vector<int> ranks = {};  // that have not entered it
};
using Waits = std::vector<Wait>;

std::string call_in_words(const Wait& wait) { return call_in_words(wait.call, *wait.group); }

std::vector<int> members(const RecordedGroup& group, const Recorded& recorded) {
  if (!group.ranks.empty()) return group.ranks;
  std::vector<int> all;
  for (const auto& [rank, one] : recorded) all.push_back(rank);
  return all;
}

// The message that the rank reports to wait for ("recv 3"), as gloo records none; else `to` is -1.
RecordedCall message_of(const Standing& one) {
  RecordedCall call;
  if (one.activity != Activity::wait) return call;
  for (const char* operation : {"recv", "send"})
    if (one.collective.starts_with(std::string(operation) + " ")) {
      call.operation = operation;
      const char* digits = one.collective.c_str() + call.operation.size() + 1;
      if (std::from_chars(digits, one.collective.c_str() + one.collective.size(), call.to).ec != std::errc())
        call.to = -1;
    }
  return call;
}

// A message's other end is in one for this rank.
bool has_entered(const Standing& other, const Wait& wait) {
  const RecordedGroup* there = group_named(other, wait.group->name);
  if (is_message(wait.call) && message_of(other).to == wait.by->rank) return true;
  if (!there) return false;
  if (!is_message(wait.call)) return there->entered >= wait.call.number;
  return std::any_of(there->calls.begin(), there->calls.end(),
                     [&](const auto& call) { return call.to == wait.by->rank && !call.over; });
}

Waits waits_of(const Recorded& recorded, InCall in_call) {
  Waits out;
  for (const auto& [rank, one] : recorded) {
    if (one->stopped || (in_call == InCall::by_its_report && one->activity != Activity::wait)) continue;
    for (const RecordedGroup& group : one->record->groups)
      if (const RecordedCall* call = first_open(group)) out.push_back({one, &group, *call});
    static const RecordedGroup none;
    if (RecordedCall message = message_of(*one); is_message(message)) out.push_back({one, &none, std::move(message)});
  }
  for (Wait& wait : out) {
    for (const int other : is_message(wait.call) ? std::vector{wait.call.to} : members(*wait.group, recorded)) {
      const auto theirs = recorded.find(other);
      if (other != wait.by->rank && theirs != recorded.end() && !has_entered(*theirs->second, wait))
        wait.ranks.push_back(other);
    }
  }
  return out;
}

bool is_same_call(const Wait& a, const Wait& b) {
  if (is_message(a.call) || is_message(b.call)) return &a == &b;
  return a.group->name == b.group->name && a.call.number == b.call.number;
}

std::vector<int> all_in(const Wait& wait, const Waits& waits) {
  std::vector<int> ranks;
  for (const Wait& one : waits)
    if (is_same_call(one, wait)) ranks.push_back(one.by->rank);
  return ranks;
}

std::string not_entered(const Wait& wait, const std::vector<int>& ranks) {
  if (is_message(wait.call))
    return std::string(wait.call.operation == "recv" ? "has not sent to" : "has not received from") + " rank " +
           std::to_string(wait.by->rank) + ", which waits for that";
  return "has not entered " + call_in_words(wait) + ", in which " + ranks_in_words(ranks) +
         (ranks.size() == 1 ? " waits" : " wait");
}

// Of several the one that most wait for. `busy`: that may not be blamed.
std::optional<RecordFinding> missing(const Waits& waits, const std::set<int>& busy) {
  std::map<int, std::vector<const Wait*>> waited_for;
  for (const Wait& wait : waits)
    for (const int other : wait.ranks)
      if (!busy.contains(other)) waited_for[other].push_back(&wait);
  const auto most = std::max_element(waited_for.begin(), waited_for.end(),
                                     [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  if (most == waited_for.end()) return {};
  const Wait& first = *most->second.front();
  const std::vector<int> ranks = all_in(first, waits);
  return RecordFinding{most->first, ranks, "it " + not_entered(first, ranks)};
}

struct Part {  // of a group: ranks whose calls at one number are the same
  const RecordedCall* call = nullptr;
  std::vector<int> ranks = {};
  Duration youngest = Duration::max();
};

std::vector<Part> parts_at(const Wait& wait, const Recorded& recorded) {
  std::vector<Part> parts;
  for (const int rank : members(*wait.group, recorded)) {
    const auto theirs = recorded.find(rank);
    const RecordedGroup* there = theirs == recorded.end() ? nullptr : group_named(*theirs->second, wait.group->name);
    const RecordedCall* call = there ? collective(*there, wait.call.number) : nullptr;
    if (!call) continue;
    auto part = std::find_if(parts.begin(), parts.end(), [&](const Part& one) { return !differ(*one.call, *call); });
    if (part == parts.end()) part = parts.insert(parts.end(), Part{call});
    part->ranks.push_back(rank);
    part->youngest = std::min(part->youngest, theirs->second->age);
  }
  return parts;
}

// Most are where all should be; of two equal parts, the one that came first.
std::optional<RecordFinding> unlike(const Waits& waits, const Recorded& recorded) {
  std::set<std::pair<std::string, std::uint64_t>> compared;
  for (const Wait& wait : waits) {
    if (is_message(wait.call) || !compared.emplace(wait.group->name, wait.call.number).second) continue;
    const std::vector<Part> parts = parts_at(wait, recorded);
    if (parts.size() < 2) continue;
    const auto [odd, most] = std::minmax_element(parts.begin(), parts.end(), [](const Part& a, const Part& b) {
      return std::tuple(a.ranks.size(), a.youngest) < std::tuple(b.ranks.size(), b.youngest);
    });
    return RecordFinding{odd->ranks.front(), most->ranks,
                         "it is in " + call_in_words(*odd->call, *wait.group) + ", where " +
                             ranks_in_words(most->ranks) + (most->ranks.size() == 1 ? " is in " : " are in ") +
                             call_in_words(*most->call, *wait.group)};
  }
  return {};
}

// All that are waited for wait themselves: of those the one that has left a message out, else the one that is in a call
// with the fewest others, and came last.
std::optional<RecordFinding> in_a_ring(const Waits& waits) {
  const Wait* odd = nullptr;
  const auto has_no_message = [&](const Wait& one) {
    return std::none_of(waits.begin(), waits.end(), [&](const Wait& wait) {
      return is_message(wait.call) && !wait.ranks.empty() && wait.ranks.front() == one.by->rank;
    });
  };
  const auto key = [&](const Wait& wait) {
    return std::tuple(has_no_message(wait), all_in(wait, waits).size(), wait.by->age);
  };
  for (const Wait& wait : waits)
    if (!wait.ranks.empty() && (!odd || key(wait) < key(*odd))) odd = &wait;
  if (!odd) return {};
  const auto waits_for_it = [&](const Wait& wait) {
    return std::find(wait.ranks.begin(), wait.ranks.end(), odd->by->rank) != wait.ranks.end();
  };
  auto for_it = std::find_if(waits.begin(), waits.end(),
                             [&](const Wait& wait) { return is_message(wait.call) && waits_for_it(wait); });
  if (for_it == waits.end()) for_it = std::find_if(waits.begin(), waits.end(), waits_for_it);
  if (for_it == waits.end()) return {};
  const std::vector<int> ranks = all_in(*for_it, waits);
  return RecordFinding{odd->by->rank, ranks, "it is in " + call_in_words(*odd) + " and " + not_entered(*for_it, ranks)};
}

}  // namespace

std::optional<RecordFinding> find_in_records(const std::vector<Standing>& standings, InCall in_call) {
  const Recorded all = recorded(standings);
  const Waits waits = waits_of(all, in_call);
  std::set<int> waiting, in_vain;
  for (const Wait& wait : waits) {
    waiting.insert(wait.by->rank);
    if (!wait.ranks.empty()) in_vain.insert(wait.by->rank);
  }
  if (auto found = missing(waits, waiting)) return found;
  if (auto found = unlike(waits, all)) return found;
  if (auto found = missing(waits, in_vain)) return found;
  return in_a_ring(waits);
}

}  // namespace ddprun::rendezvous

#include "agent/hang/flight_record.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/base/json_text.h"
#include "rendezvous/base/spelling.h"

namespace ddprun::agent {
namespace {

using Json = nlohmann::json;
using rendezvous::CollectiveRecord;
using rendezvous::RecordedCall;
using rendezvous::RecordedGroup;

// PyTorch's C++ names of types, and those that users write.
constexpr std::pair<const char*, const char*> kTypes[] = {
    {"Float", "float32"}, {"Double", "float64"}, {"Half", "float16"}, {"BFloat16", "bfloat16"}, {"Long", "int64"},
    {"Int", "int32"},     {"Short", "int16"},    {"Char", "int8"},    {"Byte", "uint8"},        {"Bool", "bool"}};

constexpr std::size_t kTypeMax = 16, kRanksMax = 1 << 14;  // ranks of more are not told
constexpr int kRankMax = 1 << 20;

std::string type_in_words(const std::string& name) {
  for (const auto& [theirs, ours] : kTypes)
    if (name == theirs) return ours;
  return name;
}

// A byte becomes four at most.
std::string text_of(const Json& value, std::size_t bytes_max = rendezvous::kCallTextMax / 4) {
  return value.is_string() ? visible(value.get_ref<const std::string&>().substr(0, bytes_max)) : std::string();
}

std::uint64_t number_in(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
}

const Json& member(const Json& object, const char* name) {
  static const Json none;
  const auto found = object.is_object() ? object.find(name) : object.end();
  return found == object.end() ? none : *found;
}

const Json& item(const Json& list, std::size_t at) {
  static const Json none;
  return list.is_array() && at < list.size() ? list[at] : none;
}

struct Tensor {
  std::string sizes;
  std::uint64_t elements = 1;
};

Tensor tensor_of(const Json& sizes) {
  Tensor out;
  for (const Json& size : sizes) {
    if (!size.is_number_unsigned()) continue;
    out.elements *= size.get<std::uint64_t>();
    out.sizes += (out.sizes.empty() ? "" : "x") + std::to_string(size.get<std::uint64_t>());
  }
  if (out.sizes.empty()) out.sizes = "scalar";
  if (out.sizes.size() > rendezvous::kCallTextMax / 4) out.sizes = std::to_string(out.elements) + " elements";
  return out;
}

void add_tensors(const Json& entry, RecordedCall& call) {
  const Json& sizes = member(entry, "input_sizes");
  if (!sizes.is_array() || sizes.empty()) return;
  for (const Json& one : sizes) call.elements += tensor_of(one).elements;
  call.type = type_in_words(text_of(item(member(entry, "input_dtypes"), 0), kTypeMax));
  call.tensors = tensor_of(sizes.front()).sizes + (call.type.empty() ? "" : " " + call.type);
  if (sizes.size() > 1) call.tensors += " and " + std::to_string(sizes.size() - 1) + " more";
}

// "gloo:all_reduce"; of a message "nccl:send 0->1", "nccl:recv 0<-1", whose numbers are the group's.
void add_operation(const std::string& profiling_name, RecordedCall& call, int& other_in_group) {
  call.operation = profiling_name.substr(profiling_name.find(':') + 1);  // all of it without one
  const std::size_t space = call.operation.find(' ');
  if (space == std::string::npos) return;
  const std::size_t arrow = call.operation.find_first_of("-<", space);
  if (arrow != std::string::npos && arrow + 2 < call.operation.size())
    std::from_chars(call.operation.data() + arrow + 2, call.operation.data() + call.operation.size(), other_in_group);
  call.operation.resize(space);
}

// NCCL never retires the messages of a batch (batch_isend_irecv), and they stay scheduled: a message is open once it
// has started.
bool is_over(const Json& entry, bool message) {
  if (member(entry, "retired") == true || member(entry, "state") == "completed") return true;
  return message && member(entry, "state") != "started";
}

std::vector<int> ranks_of(const Json& list) {
  std::vector<int> out;
  for (const Json& rank : list)
    if (rank.is_number_unsigned() && rank.get<std::uint64_t>() <= kRankMax) out.push_back(rank.get<int>());
  if (out.size() > kRanksMax) out.clear();
  return out;
}

// NCCL's record has the ranks as a text, "[0, 1]".
std::vector<int> ranks_of_group(const std::string& name, const Json& record, const Json& groups) {
  if (const Json& known = member(groups, name.c_str()); known.is_array()) return ranks_of(known);
  const Json& text = member(member(member(record, "pg_config"), name.c_str()), "ranks");
  if (!text.is_string()) return {};
  const Json list = parse_json(text.get_ref<const std::string&>());
  return list.is_array() ? ranks_of(list) : std::vector<int>();
}

// From the first that is not over; else the last ones.
void keep_last(std::vector<RecordedCall>& calls) {
  const auto open = std::find_if(calls.begin(), calls.end(), [](const RecordedCall& call) { return !call.over; });
  const auto last = calls.end() - static_cast<std::ptrdiff_t>(std::min(calls.size(), rendezvous::kCallsMax));
  calls.erase(calls.begin(), std::min(open, last));
  calls.resize(std::min(calls.size(), rendezvous::kCallsMax));
}

bool has_open(const RecordedGroup& group) {
  return std::any_of(group.calls.begin(), group.calls.end(), [](const auto& call) { return !call.over; });
}

struct Message {
  std::size_t at;  // in the group's calls
  int other;       // its number in the group
};

void add_entry(const Json& entry, RecordedGroup& group, std::vector<Message>& messages) {
  const bool message = member(entry, "is_p2p") == true;
  RecordedCall call{number_in(entry, message ? "p2p_seq_id" : "collective_seq_id")};
  int other = -1;
  add_operation(text_of(member(entry, "profiling_name")), call, other);
  add_tensors(entry, call);
  call.over = is_over(entry, message);
  if (call.operation == "coalesced") return;      // a batch of messages as a whole, with the last collective's number
  if (!message && call.number < group.entered) {  // a new group of the same name
    group.calls.clear();
    group.entered = 0;
    messages.clear();
  }
  if (message) messages.push_back({group.calls.size(), other});
  if (!message) group.entered = std::max(group.entered, call.number);
  group.calls.push_back(std::move(call));
}

// Without messages whose other end is not known: they would look like collectives.
void resolve(RecordedGroup& group, const std::vector<Message>& messages) {
  for (const auto& [at, other] : messages) {
    const std::size_t of_all = group.description == "default_pg" ? kRankMax : 0;
    const std::size_t ranks = group.ranks.empty() ? of_all : group.ranks.size();
    const bool known = other >= 0 && static_cast<std::size_t>(other) < ranks;
    group.calls[at].to = !known ? -2 : group.ranks.empty() ? other : group.ranks[other];
  }
  std::erase_if(group.calls, [&](const RecordedCall& call) { return call.to == -2; });
}

}  // namespace

std::optional<CollectiveRecord> flight_record(std::string_view text, std::string_view groups_text) {
  const Json record = parse_json(text), groups = parse_json(groups_text);
  const Json& entries = member(record, "entries");
  if (!entries.is_array() || entries.empty()) return {};
  std::map<std::string, RecordedGroup> found;
  std::map<std::string, std::vector<Message>> messages;
  for (const Json& entry : entries) {
    const std::string name = text_of(item(member(entry, "process_group"), 0));
    RecordedGroup& group = found[name];
    group.description = text_of(item(member(entry, "process_group"), 1));
    add_entry(entry, group, messages[name]);
  }
  CollectiveRecord out;
  for (auto& [name, group] : found) {
    group.name = name;
    group.ranks = ranks_of_group(name, record, groups);
    resolve(group, messages[name]);
    keep_last(group.calls);
    if (!has_open(group)) group.ranks.clear();  // those who wait tell them
    out.groups.push_back(std::move(group));
  }
  std::stable_partition(out.groups.begin(), out.groups.end(), has_open);
  out.groups.resize(std::min(out.groups.size(), rendezvous::kGroupsMax));
  return out;
}

}  // namespace ddprun::agent

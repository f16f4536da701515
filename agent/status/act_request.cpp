#include "agent/status/act_request.h"

#include <nlohmann/json.hpp>
#include <string_view>

#include "rendezvous/base/json_text.h"
#include "rendezvous/base/spelling.h"
#include "rendezvous/coordination/round/round.h"

namespace ddprun::agent {
namespace {

using nlohmann::json;
using rendezvous::Act;
using rendezvous::ActKind;

constexpr int kNodesMax = 1 << 20;
constexpr std::size_t kPlainMax = rendezvous::kActTextMax;

std::string text_at(const json& object, const char* name) {
  return object.contains(name) && object[name].is_string() ? visible(object[name].get<std::string>()) : "";
}

int number_at(const json& object, const char* name) {
  if (!object.contains(name) || !object[name].is_number_integer()) return 0;
  const auto value = object[name].get<std::int64_t>();
  return value > 0 && value <= kNodesMax ? static_cast<int>(value) : 0;
}

std::optional<rendezvous::Fault> fault_in(const json& object) {
  if (!object.is_object()) return {};
  const auto kind = rendezvous::fault_named(text_at(object, "kind"));
  const std::chrono::milliseconds time(number_at(object, "time_ms"));
  if (!kind || time > rendezvous::kFaultTimeMax) return {};
  const json id = object.value("id", json(0));
  return rendezvous::Fault{*kind, number_at(object, "rank"), time,
                           id.is_number_unsigned() ? id.get<std::uint64_t>() : 0};
}

}  // namespace

std::string act_line(const Act& act) {
  json out{{"act", rendezvous::name_of(act.kind)}, {"by", act.by}};
  if (!act.node.empty()) out["node"] = act.node;
  if (act.workers > 0) out["workers"] = act.workers;
  if (act.nodes_max > 0) out.update({{"nodes_min", act.nodes_min}, {"nodes_max", act.nodes_max}});
  if (act.fault)
    out["fault"] = {{"kind", rendezvous::name_of(act.fault->kind)},
                    {"rank", act.fault->rank},
                    {"id", act.fault->id},
                    {"time_ms", std::chrono::duration_cast<std::chrono::milliseconds>(act.fault->time).count()}};
  return kAskAct + json_text(out);
}

std::variant<Act, std::string> parse_act(const std::string& line) {
  const std::size_t prefix = std::string_view(kAskAct).size();
  const json object = parse_json(std::string_view(line).substr(std::min(prefix, line.size())));
  if (!object.is_object()) return "the request is no JSON object";
  const auto kind = rendezvous::act_named(text_at(object, "act"));
  if (!kind) return "the act is not known";
  Act act{*kind, text_at(object, "node"), number_at(object, "nodes_min"), number_at(object, "nodes_max"),
          text_at(object, "by")};
  if (act.node.size() > kPlainMax || act.by.size() > kPlainMax) return "a name is too long";
  const bool needs_node = act.kind == ActKind::drain || act.kind == ActKind::admit;
  if (needs_node && act.node.empty()) return "the node is missing";
  if (act.kind == ActKind::resize && (act.nodes_min < 1 || act.nodes_max < act.nodes_min))
    return "the numbers of nodes are missing or wrong";
  if (changes_workers(act.kind)) {
    act.workers = number_at(object, "workers");
    if (act.workers < 1 || act.workers > rendezvous::kWorkersMax) return "the number of workers is missing or wrong";
  }
  if (act.kind != ActKind::fault) return act;
  if (!object.contains("fault")) return "the fault is missing";
  act.fault = fault_in(object["fault"]);
  if (!act.fault) return "the fault is not known, or lasts for more than ten minutes";
  return act;
}

std::string to_line(const rendezvous::ActResult& answer) {
  return json_text(json{{"done", answer.done}, {"text", answer.text}}) + "\n";
}

rendezvous::ActResult parse_act_result(const std::string& line) {
  const json object = parse_json(line);
  if (!object.is_object() || !object.contains("done")) return {false, "the job has ended"};
  return {object["done"] == true, text_at(object, "text")};
}

}  // namespace ddprun::agent

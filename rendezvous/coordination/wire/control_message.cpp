#include "rendezvous/coordination/wire/control_message.h"

#include <concepts>
#include <tuple>
#include <type_traits>

#include "rendezvous/base/json_text.h"
#include "rendezvous/coordination/wire/message_fields.h"

namespace ddprun::rendezvous {
namespace {

using wire::Json;

template <class... Messages, class... Rows>
std::string written(const std::variant<Messages...>& message, const std::tuple<Rows...>& table) {
  static_assert((std::same_as<Messages, typename Rows::Message> && ...), "one description per message, in their order");
  wire::Writer writer;
  const auto write = [&](const auto& row) {
    const auto* m = std::get_if<typename std::decay_t<decltype(row)>::Message>(&message);
    if (!m) return;
    writer("type", std::string(row.type));
    row.fields(writer, *m);
  };
  std::apply([&](const auto&... row) { (write(row), ...); }, table);
  return json_text(writer.take());  // a host name may be invalid UTF-8
}

template <class Variant, class Table>
Variant parsed(std::string_view bytes, const Table& table, NodeId sender = 0) {
  const Json json = parse_json(bytes);
  if (json.is_discarded()) throw BadMessage("it is not JSON");
  wire::Reader reader(json, sender);
  std::string type;
  reader("type", type);
  Variant message;
  const auto read = [&](const auto& row) {
    if (type != row.type) return false;
    row.fields(reader, message.template emplace<typename std::decay_t<decltype(row)>::Message>());
    return true;
  };
  if (!std::apply([&](const auto&... row) { return (read(row) || ...); }, table)) throw BadMessage("'type' is unknown");
  return message;
}

}  // namespace

std::string difference(const Fingerprint& coordinators, const Fingerprint& newcomers) {
  const auto differ = [](const char* what, const std::string& theirs, const std::string& ours,
                         const char* remedy = "start every node with the same one") {
    return std::string(what) + " is " + theirs + " here and " + ours + " in the job; " + remedy;
  };
  const auto with_version = [](const Fingerprint& one) {
    return std::to_string(one.protocol) + " (of version " + one.version + ")";
  };
  const char* one_version = "install one version on all nodes";
  if (coordinators.protocol != newcomers.protocol)
    return differ("ddprun's control protocol", with_version(newcomers), with_version(coordinators), one_version);
  if (coordinators.version != newcomers.version)
    return differ("ddprun's version", newcomers.version, coordinators.version, one_version);
  if (coordinators.nodes != newcomers.nodes) return differ("--nnodes", newcomers.nodes, coordinators.nodes);
  if (coordinators.program != newcomers.program) return differ("the program", newcomers.program, coordinators.program);
  return "";
}

std::string encode(const FromAgent& message) { return written(message, wire::kFromAgent); }
std::string encode(const ToAgent& message) { return written(message, wire::kToAgent); }

FromAgent decode_from_agent(std::string_view bytes, NodeId node) {
  return parsed<FromAgent>(bytes, wire::kFromAgent, node);
}
ToAgent decode_to_agent(std::string_view bytes) { return parsed<ToAgent>(bytes, wire::kToAgent); }

}  // namespace ddprun::rendezvous

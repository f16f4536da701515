#include "rendezvous/coordination/wire/copies_opening.h"

#include <nlohmann/json.hpp>

#include "rendezvous/base/json_text.h"

namespace ddprun::rendezvous {

using Json = nlohmann::json;

std::string copies_opening() { return json_text(Json{{"type", "copies"}}); }

bool is_copies_opening(std::string_view message) {
  const Json json = parse_json(message);
  return json.is_object() && json.contains("type") && json["type"] == "copies";
}

std::string copies_welcome() { return json_text(Json{{"type", "copies-welcome"}}); }

}  // namespace ddprun::rendezvous

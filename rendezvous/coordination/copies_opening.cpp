#include "rendezvous/coordination/copies_opening.h"

#include <nlohmann/json.hpp>

namespace ddprun::rendezvous {

using Json = nlohmann::json;

std::string copies_opening() { return Json{{"type", "copies"}}.dump(); }

bool is_copies_opening(std::string_view message) {
  const Json json = Json::parse(message, nullptr, false);
  return json.is_object() && json.contains("type") && json["type"] == "copies";
}

std::string copies_welcome() { return Json{{"type", "copies-welcome"}}.dump(); }

}  // namespace ddprun::rendezvous

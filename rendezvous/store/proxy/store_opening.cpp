#include "rendezvous/store/proxy/store_opening.h"

#include <nlohmann/json.hpp>

#include "rendezvous/base/json_text.h"

namespace ddprun::rendezvous {
namespace {

using Json = nlohmann::json;

// null if it is not an object of this type.
Json parse(std::string_view message, const char* type) {
  Json json = parse_json(message);
  const bool is_it = json.is_object() && json.contains("type") && json["type"] == type;
  return is_it ? json : Json();
}

}  // namespace

std::string encode_store_opening(int round) { return json_text(Json{{"type", "store"}, {"round", round}}); }

std::optional<int> parse_store_opening(std::string_view message) {
  const Json json = parse(message, "store");
  const auto round = json.find("round");
  if (json.is_null() || round == json.end() || !round->is_number_integer()) return {};
  const auto number = round->get<std::int64_t>();
  if (number < 1 || number > std::numeric_limits<int>::max()) return {};
  return static_cast<int>(number);
}

std::string store_welcome() { return json_text(Json{{"type", "store-welcome"}}); }

bool is_store_welcome(std::string_view message) { return !parse(message, "store-welcome").is_null(); }

}  // namespace ddprun::rendezvous

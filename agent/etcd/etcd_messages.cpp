#include "agent/etcd/etcd_messages.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "agent/http/http_answer.h"
#include "rendezvous/base/json_text.h"
#include "rendezvous/base/spelling.h"

namespace ddprun::agent {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kBase64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::size_t kWhyMax = 256;
// Codes of gRPC.
constexpr int kInvalidArgument = 3, kNotFound = 5, kAlreadyExists = 6, kPermissionDenied = 7, kFailedPrecondition = 9,
              kOutOfRange = 11, kUnauthenticated = 16;

// Thrown and caught in this file.
struct NoEtcdAnswer {};

const Json& member_of(const Json& object, const char* name) {
  static const Json none;
  if (!object.is_object()) throw NoEtcdAnswer{};
  const auto found = object.find(name);
  return found == object.end() ? none : *found;
}

std::int64_t number_in(const Json& object, const char* name) {
  const Json& value = member_of(object, name);
  if (value.is_null()) return 0;
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (!value.is_string()) throw NoEtcdAnswer{};
  const auto& text = value.get_ref<const std::string&>();
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || end != text.data() + text.size() || error != std::errc()) throw NoEtcdAnswer{};
  return number;
}

bool flag_in(const Json& object, const char* name) {
  const Json& value = member_of(object, name);
  if (!value.is_null() && !value.is_boolean()) throw NoEtcdAnswer{};
  return value.is_boolean() && value.get<bool>();
}

std::string text_in(const Json& object, const char* name) {
  const Json& value = member_of(object, name);
  if (!value.is_null() && !value.is_string()) throw NoEtcdAnswer{};
  return value.is_string() ? value.get<std::string>() : std::string();
}

std::string bytes_in(const Json& object, const char* name) {
  auto bytes = from_base64(text_in(object, name));
  if (!bytes) throw NoEtcdAnswer{};
  return std::move(*bytes);
}

EtcdValue value_in(const Json& kv) {
  return {bytes_in(kv, "key"), bytes_in(kv, "value"), number_in(kv, "mod_revision"), number_in(kv, "lease")};
}

// An object without the list has none.
template <class Take>
void each_in(const Json& object, const char* name, Take take) {
  const Json& list = member_of(object, name);
  if (!list.is_null() && !list.is_array()) throw NoEtcdAnswer{};
  for (const Json& item : list) take(item);
}

EtcdAnswer answer_in(const Json& json) {
  EtcdAnswer out{.succeeded = flag_in(json, "succeeded"),
                 .lasts = number_in(json, "TTL"),
                 .token = text_in(json, "token"),
                 .more = flag_in(json, "more"),
                 .canceled = flag_in(json, "canceled")};
  if (const Json& header = member_of(json, "header"); !header.is_null()) {
    out.revision = number_in(header, "revision");
    out.cluster = text_in(header, "cluster_id");
  }
  const auto take_values = [&](const Json& of) {
    each_in(of, "kvs", [&](const Json& kv) { out.values.push_back(value_in(kv)); });
  };
  take_values(json);
  each_in(json, "responses", [&](const Json& response) {
    if (const Json& range = member_of(response, "response_range"); !range.is_null()) take_values(range);
  });
  each_in(json, "events", [&](const Json& event) {
    out.values.push_back(value_in(member_of(event, "kv")));
    out.values.back().erased = text_in(event, "type") == "DELETE";
  });
  return out;
}

// {"error": words, "code": number}, or for a stream {"error": {"message": words, "grpc_code": number}}.
EtcdRefusal refusal_in(const Json& json) {
  const Json& error = member_of(json, "error");
  const bool nested = error.is_object();
  const std::string words = nested ? text_in(error, "message") : text_in(json, "error");
  const auto code = number_in(nested ? error : json, nested ? "grpc_code" : "code");
  const auto says = [&](const char* what) { return words.find(what) != words.npos; };
  const auto is_any_of = [&](std::initializer_list<int> codes) {
    return std::find(codes.begin(), codes.end(), code) != codes.end();
  };
  const char* who = says("user name is empty") ? ": pass --rdzv-conf=user=NAME,password_file=FILE" : "";
  EtcdRefusal out{.why = visible(words.substr(0, kWhyMax)) + who,
                  .log_in = code == kUnauthenticated || says("auth token") || says("auth store is old"),
                  .denied = code == kPermissionDenied,
                  .lease_exists = says("lease already exists"),
                  .no_lease = says("lease not found"),
                  .no_users = says("authentication is not enabled")};
  out.lasting = !out.log_in && is_any_of({kInvalidArgument, kPermissionDenied});
  out.final = !out.log_in && is_any_of({kInvalidArgument, kNotFound, kAlreadyExists, kPermissionDenied,
                                        kFailedPrecondition, kOutOfRange});
  return out;
}

// No answer of etcd's API. A gateway before it, or a member that is starting, may mend.
EtcdRefusal other_answer(int status) {
  constexpr int kOk = 200, kServerError = 500, kTooMany = 429;
  if (status >= kServerError || status == kTooMany) return {.why = "it answers " + status_in_words(status)};
  const std::string what = status == kOk ? std::string() : ": " + status_in_words(status);
  return {.why = "it does not answer as the v3 API of etcd 3.4 or later" + what, .lasting = true};
}

Json key_json(const std::string& key) { return {{"key", base64(key)}}; }

EtcdRequest lease_request(const char* path, std::int64_t lease) {
  return {path, json_text(Json{{"ID", std::to_string(lease)}})};
}

}  // namespace

std::string base64(std::string_view bytes) {
  std::string out;
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    std::uint32_t three = 0;
    for (std::size_t i = at; i < at + 3; ++i)
      three = three << 8 | (i < bytes.size() ? static_cast<unsigned char>(bytes[i]) : 0U);
    for (int shift = 18; shift >= 0; shift -= 6) out += kBase64[three >> shift & 63];
  }
  const std::size_t padding = (3 - bytes.size() % 3) % 3;
  return out.replace(out.size() - padding, padding, padding, '=');
}

std::optional<std::string> from_base64(std::string_view text) {
  if (text.size() % 4 != 0) return {};
  std::size_t padding = 0;
  for (; padding < 2 && text.ends_with('='); ++padding) text.remove_suffix(1);
  std::string out;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const std::size_t digit = kBase64.find(c);
    if (digit == kBase64.npos) return {};
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    out += static_cast<char>(bits >> count & 0xff);
  }
  return out;
}

EtcdRequest transaction(const EtcdTransaction& of) {
  Json compare = Json::array(), success = Json::array(), failure = Json::array();
  const auto equal = [&](const std::string& key, const char* target, const char* name, std::int64_t number) {
    compare.push_back({{"key", base64(key)}, {"target", target}, {"result", "EQUAL"}, {name, std::to_string(number)}});
  };
  for (const EtcdCompare& one : of.compares) {
    equal(one.key, "MOD", "mod_revision", one.revision);
    if (one.lease != 0) equal(one.key, "LEASE", "lease", one.lease);
  }
  for (const EtcdPut& put : of.puts)
    success.push_back(
        {{"request_put",
          {{"key", base64(put.key)}, {"value", base64(put.value)}, {"lease", std::to_string(put.lease)}}}});
  for (const std::string& key : of.erased) success.push_back({{"request_delete_range", key_json(key)}});
  for (const std::string& key : of.read) success.push_back({{"request_range", key_json(key)}});
  for (const std::string& key : of.read_else) failure.push_back({{"request_range", key_json(key)}});
  return {"/v3/kv/txn", json_text(Json{{"compare", compare}, {"success", success}, {"failure", failure}})};
}

EtcdRequest grant_lease(std::int64_t lease, std::chrono::seconds lasts) {
  return {"/v3/lease/grant", json_text(Json{{"ID", std::to_string(lease)}, {"TTL", std::to_string(lasts.count())}})};
}

EtcdRequest keep_lease(std::int64_t lease) { return lease_request("/v3/lease/keepalive", lease); }
EtcdRequest revoke_lease(std::int64_t lease) { return lease_request("/v3/lease/revoke", lease); }

EtcdRequest list_keys(const std::string& prefix, const std::string& after, int most) {
  std::string end = prefix;
  ++end.back();
  return {"/v3/kv/range", json_text(Json{{"key", base64(after.empty() ? prefix : after + '\0')},
                                         {"range_end", base64(end)},
                                         {"keys_only", true},
                                         {"limit", std::to_string(most)}})};
}

EtcdRequest watch_key(const std::string& key, std::int64_t from_revision) {
  return {"/v3/watch",
          json_text(Json{
              {"create_request",
               {{"key", base64(key)}, {"start_revision", std::to_string(from_revision)}, {"progress_notify", true}}}})};
}

EtcdRequest log_in(const std::string& user, const std::string& password) {
  return {"/v3/auth/authenticate", json_text(Json{{"name", user}, {"password", password}})};
}

const EtcdValue* EtcdAnswer::find(const std::string& key) const {
  const auto found = std::find_if(values.rbegin(), values.rend(), [&](const EtcdValue& v) { return v.key == key; });
  return found == values.rend() ? nullptr : &*found;
}

std::variant<EtcdAnswer, EtcdRefusal> read_etcd_answer(int status, std::string_view body) {
  constexpr int kOk = 200;
  const Json json = parse_json(body);
  try {
    if (!json.is_object()) return other_answer(status);
    if (json.contains("error")) return refusal_in(json);
    if (status != kOk) return other_answer(status);
    const Json& result = member_of(json, "result");  // of a stream
    return answer_in(result.is_null() ? json : result);
  } catch (const NoEtcdAnswer&) {
    return other_answer(status);
  }
}

}  // namespace ddprun::agent

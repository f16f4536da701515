#include "agent/etcd/etcd_messages.h"

#include <nlohmann/json.hpp>

#include "tests/support/test.h"

using nlohmann::json;

namespace {

EtcdAnswer answered(const std::string& body) { return std::get<EtcdAnswer>(read_etcd_answer(200, body)); }
EtcdRefusal refused(const std::string& body, int status = 200) {
  return std::get<EtcdRefusal>(read_etcd_answer(status, body));
}

}  // namespace

TEST_CASE("base64 is read as it is written, and nothing else is", "[etcd]") {
  CHECK(base64("") == "");
  CHECK(base64("f") == "Zg==");
  CHECK(base64("fo") == "Zm8=");
  CHECK(base64("foo") == "Zm9v");
  CHECK(base64("\xff\xfe\xfd") == "//79");
  std::string all;
  for (int size = 0; size < 600; ++size) {
    CHECK(from_base64(base64(all)) == all);
    all += static_cast<char>(size * 7);
  }
  for (const char* wrong : {"Z", "Zg", "Zg=", "Z===", "Zg==Zg==", "Zm9 ", "Zm-_", "===="})
    CHECK(from_base64(wrong).value_or("wrong") == "wrong");
}

TEST_CASE("requests to etcd are what its gateway takes", "[etcd]") {
  const EtcdRequest all = transaction({.compares = {{"a", 0}, {"b", 5'000'000'000, 77}},
                                       .puts = {{"a", "v", 77}},
                                       .erased = {"b"},
                                       .read = {"c"},
                                       .read_else = {"a"}});
  CHECK(all.path == "/v3/kv/txn");
  CHECK(json::parse(all.json) == json::parse(R"({
    "compare": [{"key": "YQ==", "target": "MOD", "result": "EQUAL", "mod_revision": "0"},
                {"key": "Yg==", "target": "MOD", "result": "EQUAL", "mod_revision": "5000000000"},
                {"key": "Yg==", "target": "LEASE", "result": "EQUAL", "lease": "77"}],
    "success": [{"request_put": {"key": "YQ==", "value": "dg==", "lease": "77"}},
                {"request_delete_range": {"key": "Yg=="}},
                {"request_range": {"key": "Yw=="}}],
    "failure": [{"request_range": {"key": "YQ=="}}]})"));
  CHECK(grant_lease(7, 11s).json == R"({"ID":"7","TTL":"11"})");
  CHECK(keep_lease(7).json == R"({"ID":"7"})");
  CHECK(json::parse(list_keys("/x/", "", 9).json) ==
        json::parse(R"({"key": "L3gv", "range_end": "L3gw", "keys_only": true, "limit": "9"})"));
  CHECK(json::parse(list_keys("/x/", "/x/b", 9).json)["key"] == base64(std::string("/x/b\0", 5)));
  CHECK(json::parse(watch_key("a", 4).json) ==
        json::parse(R"({"create_request": {"key": "YQ==", "start_revision": "4", "progress_notify": true}})"));
}

TEST_CASE("answers of etcd, with what they leave out", "[etcd]") {
  const EtcdAnswer lost = answered(
      R"({"header":{"cluster_id":"14841639068965178418","revision":"12"},"responses":[{"response_range":{"kvs":[
          {"key":"YQ==","mod_revision":"9","value":"dg==","lease":"77"}]}},{"response_range":{}}]})");
  CHECK(lost.revision == 12);
  CHECK(lost.cluster == "14841639068965178418");
  CHECK_FALSE(lost.succeeded);
  REQUIRE(lost.find("a"));
  CHECK(lost.find("a")->value == "v");
  CHECK(lost.find("a")->revision == 9);
  CHECK(lost.find("a")->lease == 77);
  CHECK_FALSE(lost.find("b"));
  CHECK(answered(R"({"succeeded":true,"responses":[{"response_put":{}}]})").succeeded);
  CHECK(answered(R"({"result":{"ID":"7","TTL":"10"}})").lasts == 10);
  CHECK(answered(R"({"result":{"ID":"7"}})").lasts == 0);
  const EtcdAnswer events = answered(
      R"({"result":{"header":{"revision":"12"},"events":[{"kv":{"key":"YQ==","mod_revision":"11","value":"dg=="}},
          {"type":"DELETE","kv":{"key":"YQ==","mod_revision":"12"}}]}})");
  CHECK(events.values.size() == 2);
  CHECK(events.find("a")->erased);
  CHECK(events.find("a")->revision == 12);
  CHECK(answered(R"({"result":{"canceled":true,"compact_revision":"2"}})").canceled);
  CHECK(answered(R"({"token":"x.1"})").token == "x.1");
}

TEST_CASE("what etcd refuses is told, and whether it may mend", "[etcd]") {
  const EtcdRefusal password = refused(
      R"({"error":"etcdserver: authentication failed, invalid user ID or password","message":"m","code":3})", 400);
  CHECK(password.why == "etcdserver: authentication failed, invalid user ID or password");
  CHECK(password.lasting);
  CHECK(password.final);
  const EtcdRefusal token = refused(R"({"error":"etcdserver: invalid auth token","code":16})", 401);
  CHECK(token.log_in);
  CHECK_FALSE(token.final);
  CHECK(refused(R"({"error":"etcdserver: revision of auth store is old","code":3})", 400).log_in);
  CHECK(refused(R"({"error":"etcdserver: permission denied","code":7})", 403).denied);
  CHECK_FALSE(password.denied);
  CHECK(refused(R"({"error":"etcdserver: lease already exists","code":9})", 412).lease_exists);
  CHECK(refused(R"({"error":"etcdserver: requested lease not found","code":5})", 404).no_lease);
  CHECK(refused(R"({"error":"etcdserver: authentication is not enabled","code":9})", 412).no_users);
  const EtcdRefusal nested =
      refused(R"({"error":{"grpc_code":14,"http_code":503,"message":"etcdserver: no leader","http_status":"x"}})");
  CHECK(nested.why == "etcdserver: no leader");
  CHECK_FALSE(nested.lasting);
  CHECK_FALSE(nested.final);
  CHECK(refused(R"({"error":"\u0007","code":2})", 500).why == "\\x07");
  CHECK(refused("404 page not found\n", 404).lasting);
  CHECK_FALSE(refused("", 502).lasting);
  for (const char* garbage :
       {"", "[]", "1", "{", R"({"header":3})", R"({"responses":{}})", R"({"responses":[3]})",
        R"({"kvs":[{"key":"!"}]})", R"({"header":{"revision":"x"}})",
        R"({"header":{"revision":"99999999999999999999"}})", R"({"events":[{}]})", R"({"succeeded":1})",
        R"({"token":[]})", R"({"result":[]})", R"({"error":{"message":3}})"}) {
    CAPTURE(garbage);
    const EtcdRefusal other = refused(garbage);
    CHECK(other.why == "it does not answer as the v3 API of etcd 3.4 or later");
    CHECK(other.lasting);
  }
}

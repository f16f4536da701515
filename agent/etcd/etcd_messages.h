// Requests to etcd's v3 API by its JSON gateway, and its answers. Pure.
//
// Keys and values are base64 there, numbers of 64 bits are texts, and false, zero and empty fields are left out.
#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace ddprun::agent {

std::string base64(std::string_view bytes);
std::optional<std::string> from_base64(std::string_view text);  // with its padding

struct EtcdRequest {
  std::string path, json;
};

struct EtcdCompare {
  std::string key;
  std::int64_t revision = 0;  // of its last change; 0: there is no such key
  std::int64_t lease = 0;     // that it has; 0: any
};
struct EtcdPut {
  std::string key, value;
  std::int64_t lease = 0;
};
struct EtcdTransaction {
  std::vector<EtcdCompare> compares = {};
  std::vector<EtcdPut> puts = {};
  std::vector<std::string> erased = {};
  std::vector<std::string> read = {};       // if all compares hold
  std::vector<std::string> read_else = {};  // if not
};
// Linearizable, also one that only reads.
EtcdRequest transaction(const EtcdTransaction& of);
EtcdRequest grant_lease(std::int64_t lease, std::chrono::seconds lasts);
EtcdRequest keep_lease(std::int64_t lease);
EtcdRequest revoke_lease(std::int64_t lease);
// The keys, without values, that begin with `prefix` and come after the key `after` (empty: from the first one).
EtcdRequest list_keys(const std::string& prefix, const std::string& after, int most);
EtcdRequest watch_key(const std::string& key, std::int64_t from_revision);
EtcdRequest log_in(const std::string& user, const std::string& password);

struct EtcdValue {
  std::string key, value;
  std::int64_t revision = 0;  // of its last change
  std::int64_t lease = 0;
  bool erased = false;  // of a watch: the key is gone
};
// What an answer to any request says, or a line of a watch.
struct EtcdAnswer {
  std::int64_t revision = 0;                            // of etcd
  std::string cluster = {};                             // its number; a cluster that was set up anew has another one
  bool succeeded = false;                               // all compares of the transaction held
  std::vector<EtcdValue> values = {};                   // that were read or have changed
  std::int64_t lasts = 0;                               // seconds of a lease that was kept alive; 0: it is dead
  std::string token = {};                               // of a log-in
  bool more = false;                                    // keys than were asked for
  bool canceled = false;                                // the watch: its revision is compacted, or etcd has ended it
  const EtcdValue* find(const std::string& key) const;  // the last one
};
struct EtcdRefusal {
  std::string why = {};  // a clause
  bool lasting = false;  // it cannot mend by itself
  bool final = false;    // every member would say so
  bool log_in = false;   // the token is not valid any more
  bool denied = false;   // the user has no right to the keys
  bool lease_exists = false, no_lease = false, no_users = false;
};
// `status`: of HTTP.
std::variant<EtcdAnswer, EtcdRefusal> read_etcd_answer(int status, std::string_view body);

}  // namespace ddprun::agent

// What a job keeps at etcd: two keys, PREFIX/RUN ID/coordinator and PREFIX/RUN ID/record.
//
// The coordinator's key has the coordinator's lease; who wins it coordinates. Its modification revision is the fence:
// every write of the record compares it, so that a coordinator that has lost the key writes nothing. The record is what
// another coordinator needs to go on: the last round, the restart ledger, the number of coordinators so far. Values.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/coordination/round/round.h"
#include "rendezvous/coordination/wire/ledger_file.h"

namespace ddprun::rendezvous {

struct EtcdHolder {
  NodeId node = 0;
  std::string name = {};                    // its host name, for people
  std::vector<ControlAddress> places = {};  // where its agent listens: tried in turn
  int term = 0;
  std::string host = {};  // the machine and its network: who is there knows that it is dead if its port is closed
  bool released = false;  // it coordinates no more: the key may be taken at once

  friend bool operator==(const EtcdHolder&, const EtcdHolder&) = default;
};

struct EtcdRecord {
  int term = 0;       // of the last coordinator
  Round round = {};   // the last one that was formed; number 0: none. Without nodes: no worker of it may live
  Duration age = {};  // since it was new, when it was read
  std::optional<Outcome> over = {};  // the job has ended so
  std::string mark = {};             // TlsContext::mark() of its nodes: others have no part in it
};

// `revision`s are etcd's; 0: there is no such key.
struct EtcdKeys {
  std::int64_t revision = 0;  // of etcd, when they were read
  std::optional<EtcdHolder> holder = {};
  std::int64_t holder_revision = 0;
  std::optional<EtcdRecord> record = {};
  std::int64_t record_revision = 0;
};

// Values of the keys, in JSON. Reading throws BadMessage.
std::string encode(const EtcdHolder& holder);
std::string encode(const EtcdRecord& record, WallClock::time_point now);
EtcdHolder decode_holder(std::string_view text);
EtcdRecord decode_record(std::string_view text, WallClock::time_point now);

}  // namespace ddprun::rendezvous

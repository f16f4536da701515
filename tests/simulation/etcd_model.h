// etcd as one job sees it: two keys, revisions, leases by a clock of its own, a watch, and everything that a real one
// does to its clients. It is slow, loses answers, carries requests out late, is down, or is out of reach for a node.
//
// Linearizable: each operation happens at one moment, that at which it is called here. Leases expire up to half a
// second late, never while etcd is down; a new leader of etcd extends all of them.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "rendezvous/etcd/etcd_election.h"
#include "tests/simulation/network.h"

namespace ddprun::test {

using namespace rendezvous;

// Bugs that a test can inject.
enum class EtcdBug {
  none,
  claim_without_compare,
  store_without_compare,
  lease_believed_after_pause,  // contact counts from the arrival of the renewal's answer
  no_wait_for_members,         // a newcomer that finds no coordinator forms a round at once
  not_held_until_stored,       // a round starts though etcd does not have its record
  no_fence                     // a node out of reach does not end its workers
};

class EtcdModel {
 public:
  // `rate`: of its clock.
  EtcdModel(Network& net, double rate, EtcdBug bug) : net_(net), rate_(rate), bug_(bug) {}

  // One request and its answer, if they arrive. `carry_out` is called when it has reached etcd, once or not at all, and
  // returns what is done at the node with the answer.
  using Reply = std::function<void()>;
  void request(NodeId from, const std::function<Reply()>& carry_out);

  // At etcd.
  EtcdKeys keys(bool with_record);
  std::int64_t grant(Duration lasts);
  bool keep(std::int64_t lease);  // false: it has expired
  std::int64_t lease_of(std::int64_t fence) const;
  bool holds(std::int64_t fence) const { return holder_.revision == fence; }
  // `call` tells a request that is sent twice.
  ClaimAnswered claim(const ClaimKey& claim, std::int64_t lease);
  StoreAnswered store(const StoreRecord& store, int call);
  void release(const ReleaseKey& release);
  bool leave(const LastAct& act);  // false: the key is not held any more

  void watch(NodeId node, std::function<void(const EtcdKeys&)> seen);
  void stop_watch(NodeId node) { watches_.erase(node); }

  // Faults.
  void go_down(Duration lasts);
  // Its requests then take half a second to `most_ms`.
  void be_slow(NodeId node, Duration lasts, int most_ms) { slow_[node] = {net_.now() + lasts, most_ms}; }
  void cut(NodeId node, Duration lasts);
  void change_leader() { extend_leases(); }
  void lose_data();
  bool down() const { return net_.now() < down_until_; }
  bool reaches(NodeId node) const;

  int requests() const { return requests_; }
  int records_read() const { return records_read_; }
  bool has_coordinator() const { return holder_.revision != 0; }
  const std::optional<Outcome>& first_end() const { return first_end_; }  // of the job, as it was written
  const std::optional<EtcdRecord>& record() const { return record_.value; }

 private:
  struct Lease {
    Duration lasts;
    TimePoint until;  // by its clock
  };
  struct HolderKey {
    std::optional<EtcdHolder> value = {};
    std::int64_t revision = 0, lease = 0;
  };
  struct RecordKey {
    std::optional<EtcdRecord> value = {};
    std::int64_t revision = 0, lease = 0;
    TimePoint written_at = {};
    int call = 0;
  };
  struct Watch {
    std::function<void(const EtcdKeys&)> seen;
    std::int64_t told = 0;  // revision
    TimePoint last = {};    // arrival
    bool broken = false;
  };
  TimePoint now() const {
    return TimePoint() + Duration(static_cast<Duration::rep>(rate_ * net_.now().time_since_epoch().count()));
  }
  Duration delay(NodeId node);
  void arrive(NodeId from, const std::function<Reply()>& carry_out, TimePoint until);
  void answer(NodeId to, const Reply& reply, TimePoint until);
  void extend_leases();
  void expire_later(std::int64_t lease);
  void put_holder(const std::optional<EtcdHolder>& value, std::int64_t lease);
  void put_record(const EtcdRecord& record, int call);
  std::int64_t record_lease(const EtcdRecord& record);
  void tell(NodeId node);
  void break_watch(NodeId node);

  Network& net_;
  const double rate_;
  const EtcdBug bug_;
  std::int64_t revision_ = 1'000'000, last_lease_ = 0;  // other jobs have used it
  HolderKey holder_;
  RecordKey record_;
  std::int64_t holder_changed_ = 0;  // revision
  std::map<std::int64_t, Lease> leases_;
  std::map<std::int64_t, std::int64_t> lease_by_fence_;
  std::map<NodeId, Watch> watches_;
  std::map<NodeId, TimePoint> cut_until_;
  std::map<NodeId, std::pair<TimePoint, int>> slow_;  // until when, most_ms
  TimePoint down_until_;
  std::optional<Outcome> first_end_;
  int requests_ = 0, records_read_ = 0;
};

}  // namespace ddprun::test

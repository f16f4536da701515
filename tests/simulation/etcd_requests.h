// An agent of a simulated job and etcd: its election, and its requests.
#pragma once
#include <functional>
#include <optional>

#include "tests/simulation/etcd_cluster.h"

namespace ddprun::test {

ControlAddress address_of(NodeId id);

class EtcdRequests {
 public:
  explicit EtcdRequests(EtcdAgent& agent);
  void begin();
  void on(const EtcdEvent& event);
  TimePoint contact() const { return election_.contact(); }
  // The agent leaves: the keys are released, or go with the job's end.
  void leave();
  bool may_exit() const;
  bool keeps_key() const { return election_.leads() && !let_go_; }

 private:
  void schedule();
  template <class Answer>
  void ask(EtcdRequest request, const std::function<void(const std::function<void(Answer)>&)>& once);
  template <class Result>
  void trip(const std::function<Result()>& at_etcd, const std::function<void(Result)>& then);
  void carry_out(const ReadKeys& action);
  void carry_out(const ClaimKey& action);
  void carry_out(const RenewLease& action);
  void carry_out(const StoreRecord& action);
  void carry_out(const ReleaseKey& action);
  void carry_out(const LeadJob& action);
  void carry_out(const RecordStored& action);
  void carry_out(const StopLeading& action);
  void carry_out(const FollowHolder& action);
  void carry_out(const LookForNodes& action);
  void carry_out(const LearnEnd& action);
  void carry_out(const WrongMark& action);
  void carry_out(const KeysAreGone& action);
  void probe(int look, NodeId other);
  void let_keys_go(const LastAct& act, int tries);

  EtcdAgent& agent_;
  EtcdModel& etcd_;
  EtcdElection election_;
  std::optional<TimePoint> tick_at_ = {};
  bool is_slow_ = false, let_go_ = false;  // let_go_: the keys
  TimePoint lets_go_until_ = {};
};

}  // namespace ddprun::test

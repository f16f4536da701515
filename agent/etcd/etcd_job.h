// The keys of one job at etcd: PREFIX/RUN ID/coordinator and PREFIX/RUN ID/record (rendezvous/etcd/etcd_keys.h).
//
// It carries out what EtcdElection asks for, and decides nothing. Leases have ids that we draw, so a request that is
// sent again does the same. The record has a lease, too: a long one, which is kept alive while we coordinate, or a
// short one once the job has ended for good.
//
// For the thread of its io_context. Hooks and answers are never called inside a function of ours, nor after our
// destruction; they may not destroy us.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include "agent/etcd/etcd_client.h"
#include "rendezvous/etcd/etcd_election.h"

namespace ddprun::agent {

struct EtcdJobKeys {
  std::string all;  // what they begin with
  std::string holder = all + "coordinator", record = all + "record";
};
EtcdJobKeys keys_of_job(const std::string& prefix, const std::string& run_id);
// Of an answer that has read both. Throws BadMessage naming the key.
rendezvous::EtcdKeys read_keys(const EtcdAnswer& answer, const EtcdJobKeys& keys);

class EtcdJob {
 public:
  struct Hooks {
    std::function<void(const rendezvous::EtcdKeys& seen)> on_holder;  // by the watch: revision, holder, holder_revision
    std::function<void(const std::string& why, bool lasting)> on_trouble;  // lasting: it cannot mend by itself
    std::function<void()> on_answer;                                       // etcd has answered a request
    EtcdCredentials::Say say;
  };
  template <class Answer>
  using Done = std::function<void(std::optional<Answer>)>;  // empty: nobody knows whether it was carried out
  EtcdJob(asio::io_context& io, std::shared_ptr<const EtcdAccess> access, const std::string& run_id, Hooks hooks);
  EtcdJob(const EtcdJob&) = delete;
  EtcdJob& operator=(const EtcdJob&) = delete;

  // Each calls `done` once. A read begins the watch, or begins it again if it
  // is at another member.
  void read(const Done<rendezvous::KeysRead>& done);
  void claim(const rendezvous::ClaimKey& claim, const Done<rendezvous::ClaimAnswered>& done);
  void renew(std::int64_t fence, const Done<rendezvous::RenewalAnswered>& done);
  void store(const rendezvous::StoreRecord& store, const Done<rendezvous::StoreAnswered>& done);
  void release(const rendezvous::ReleaseKey& release);
  // Before we leave. `done`: it is carried out, or time is over.
  void end(const rendezvous::LastAct& act, Duration within, std::function<void()> done);
  std::string local_address() const { return client_.local_address(); }

 private:
  struct RecordWrite {
    std::int64_t fence = 0, revision = 0, lease = 0;  // revision: of the record that it replaces
    std::string value;
    int tries = 0;
  };
  using LeaseDone = std::function<void(std::int64_t)>;  // 0: there is none
  bool take(const EtcdResult& result);
  EtcdCompare fenced(std::int64_t fence) const;
  bool is_own(const EtcdValue* holder) const;
  std::optional<rendezvous::EtcdKeys> take_keys(const EtcdAnswer& answer);
  std::optional<rendezvous::ClaimAnswered> take_claim(const rendezvous::ClaimKey& claim, std::int64_t lease,
                                                      std::int64_t record_lease, const EtcdResult& result);
  void put_claim(const rendezvous::ClaimKey& claim, std::int64_t record_lease,
                 const Done<rendezvous::ClaimAnswered>& done);
  void read_fence(std::int64_t fence, TimePoint sent_at, const Done<rendezvous::RenewalAnswered>& done);
  void put_record(RecordWrite write, const Done<rendezvous::StoreAnswered>& done);
  void take_stored(RecordWrite write, const EtcdAnswer& answer, const Done<rendezvous::StoreAnswered>& done);
  void with_record_lease(const rendezvous::EtcdRecord& record, const LeaseDone& done);
  void keep_record_lease(TimePoint now);
  void record_written(std::int64_t revision, std::int64_t lease);
  void grant(std::chrono::seconds lasts, const LeaseDone& done);
  void revoke_leases_but(std::int64_t held);
  void watch_from(std::int64_t revision);
  void take_line(const EtcdAnswer& line);
  void watch_again();
  void after(Duration time, std::function<void()> then);  // unless the watch says something
  void read_holder();
  void tell_holder(const EtcdAnswer& of, std::int64_t at_revision);

  asio::io_context& io_;
  const std::shared_ptr<const EtcdAccess> access_;
  const EtcdJobKeys keys_;
  const Hooks hooks_;
  EtcdClient client_;
  std::vector<std::int64_t> leases_;  // that we have granted for the coordinator's key
  std::int64_t own_lease_ = 0;        // of that key, when we had it last
  std::int64_t record_revision_ = 0;
  std::int64_t record_lease_ = 0;  // of the record as we have seen it last
  TimePoint record_lease_kept_ = {};
  std::int64_t watch_from_ = 0;  // revision
  Duration watch_pause_ = {};
  asio::steady_timer watch_timer_, end_limit_;
  std::shared_ptr<const int> alive_ = std::make_shared<int>();  // expired for what comes after our destruction
};

}  // namespace ddprun::agent

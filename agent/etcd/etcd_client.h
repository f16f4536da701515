// Asks etcd: sends a request to one member after the other, until one answers or the request's time is over.
//
// A try may take 0.5 s, and longer after tries that took too long, so that a slow cluster answers in the end. A try
// that was given up may still be carried out: requests must be idempotent, or compare revisions. It logs in as
// EtcdAccess says, and again when etcd does not know its token any more. Connections are kept for some time.
//
// For the thread of its io_context. Handlers are never called inside a function of ours, nor after our destruction;
// they may destroy us.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include "agent/etcd/etcd_access.h"
#include "agent/etcd/etcd_credentials.h"
#include "agent/etcd/etcd_messages.h"
#include "agent/http/http_client.h"
#include "rendezvous/base/time.h"

namespace ddprun::agent {

struct EtcdResult {
  std::optional<EtcdAnswer> answer = {};
  TimePoint sent_at = {};    // of the try that was answered
  EtcdRefusal refusal = {};  // if there is no answer; why: "127.0.0.1:2379: Connection refused"
};

class EtcdClient {
 public:
  using Done = std::function<void(const EtcdResult&)>;
  // `keys`: what those that it asks for begin with. `say`: EtcdCredentials.
  EtcdClient(asio::io_context& io, std::shared_ptr<const EtcdAccess> access, std::string keys,
             const EtcdCredentials::Say& say);
  EtcdClient(const EtcdClient&) = delete;
  EtcdClient& operator=(const EtcdClient&) = delete;

  // `within` empty: the usual limit.
  void request(EtcdRequest request, std::optional<Duration> within, Done done);
  // A request whose answer has no end: one try, and `line` for each part. `ended` with what has ended it. There is one
  // at a time: another call, or stop_watch(), ends it without a word.
  void watch(EtcdRequest request, std::function<void(const EtcdAnswer&)> line, Done ended);
  void stop_watch() { watch_.reset(); }
  // There is one, at the member that has answered last.
  bool watches_well() const;

  // By which this machine reaches etcd; empty: no member has answered yet.
  const std::string& local_address() const { return local_address_; }

 private:
  struct Call;
  using CallPtr = std::shared_ptr<Call>;
  void begin(const CallPtr& call);
  void send(const CallPtr& call);
  void take(const CallPtr& call, bool logging_in, const PostResult& got);
  bool believes(const Call& call, const EtcdAnswer& answer);
  void take_refusal(const CallPtr& call, bool logging_in, EtcdRefusal refusal);
  void take_piece(const CallPtr& call, const std::string& piece);
  void fail(const CallPtr& call, const EtcdRefusal& refusal);
  void finish(CallPtr call, const EtcdResult& result);
  std::unique_ptr<HttpClient> connection();
  void keep(std::unique_ptr<HttpClient> connection);

  asio::io_context& io_;
  const std::shared_ptr<const EtcdAccess> access_;
  const std::string keys_;
  EtcdCredentials credentials_;
  const std::shared_ptr<rendezvous::Resolver> names_;
  std::size_t member_;  // to ask next
  Duration try_limit_;
  std::vector<std::string> clusters_;  // by member: EtcdAnswer::cluster of its last answer
  std::string cluster_;                // that we believe
  std::string token_, local_address_;
  bool has_no_users_ = false;  // etcd
  std::set<CallPtr> calls_;
  CallPtr watch_;
  std::vector<std::unique_ptr<HttpClient>> kept_;
  asio::steady_timer kept_until_;
  std::shared_ptr<const int> alive_ = std::make_shared<int>();  // expired for what comes after our destruction
};

}  // namespace ddprun::agent

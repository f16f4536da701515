#include "agent/etcd/etcd_list.h"

#include <memory>
#include <set>

#include "agent/etcd/etcd_job.h"
#include "rendezvous/base/error.h"

namespace ddprun::agent {
namespace {

constexpr int kKeysAtATime = 5000;

class BlockingClient {
 public:
  BlockingClient(const EtcdAccess& access, const std::string& keys, Duration within)
      : until_(Clock::now() + within),
        client_(io_, std::make_shared<const EtcdAccess>(access), keys, [](const std::string&) {}) {}

  EtcdAnswer ask(EtcdRequest request) {
    std::optional<EtcdResult> result;
    client_.request(std::move(request), until_ - Clock::now(), [&](const EtcdResult& came) { result = came; });
    io_.restart();
    while (!result) io_.run_one();
    if (!result->answer) throw Error("cannot read what etcd knows", result->refusal.why);
    return std::move(*result->answer);
  }

 private:
  const TimePoint until_;
  asio::io_context io_;
  EtcdClient client_;
};

// The run ids of keys_of_job().
std::set<std::string> run_ids(BlockingClient& client, const std::string& prefix) {
  std::set<std::string> out;
  EtcdAnswer page{.more = true};
  for (std::string last; page.more; last = page.values.empty() ? last : page.values.back().key) {
    page = client.ask(list_keys(prefix, last, kKeysAtATime));
    if (page.values.empty()) break;
    for (const EtcdValue& value : page.values)
      for (const std::string_view end : {"/coordinator", "/record"})
        if (value.key.ends_with(end) && value.key.size() > prefix.size() + end.size())
          out.insert(value.key.substr(prefix.size(), value.key.size() - prefix.size() - end.size()));
  }
  return out;
}

EtcdEntry read_entry(BlockingClient& client, const EtcdJobKeys& keys, const std::string& run_id) {
  const EtcdAnswer answer = client.ask(transaction({.read = {keys.holder, keys.record}}));
  try {
    return {run_id, read_keys(answer, keys)};
  } catch (const rendezvous::BadMessage& bad) {
    return {run_id, {}, bad.what()};
  }
}

}  // namespace

std::vector<EtcdEntry> list_jobs(const EtcdAccess& access, Duration within) {
  const std::string all = access.prefix + "/";
  BlockingClient client(access, all, within);
  std::vector<EtcdEntry> out;
  for (const std::string& run_id : run_ids(client, all))
    out.push_back(read_entry(client, keys_of_job(access.prefix, run_id), run_id));
  return out;
}

EtcdEntry read_job(const EtcdAccess& access, const std::string& run_id, Duration within) {
  const EtcdJobKeys keys = keys_of_job(access.prefix, run_id);
  BlockingClient client(access, keys.all, within);
  return read_entry(client, keys, run_id);
}

}  // namespace ddprun::agent

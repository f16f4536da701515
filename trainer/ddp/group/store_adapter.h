// Our client of the store (rendezvous/store/client.h) with LibTorch's Store interface: one connection, and a deadline
// on every call.
//
// LibTorch's own client has deadlines only on its waits: a store that hangs would block a rank forever. A key or reply
// that is missing at the deadline throws c10::DistStoreError; a lost store throws c10::DistNetworkError, and the next
// call reconnects. A negative time-out means none; zero tries once.
//
// Any thread may call; calls are serialised, so a thread that waits long uses its own clone(): another connection.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Store.hpp>
#include "rendezvous/store/client.h"

namespace ddprun {

class StoreAdapter : public c10d::Store {
 public:
  // Connects, and throws as the client does (ddprun::Error).
  explicit StoreAdapter(const rendezvous::Client::Options& options);

  c10::intrusive_ptr<c10d::Store> clone() override;
  using c10d::Store::compareSet;
  using c10d::Store::set;
  void set(const std::string& key, const std::vector<std::uint8_t>& value) override;
  std::vector<std::uint8_t> compareSet(const std::string& key, const std::vector<std::uint8_t>& expected,
                                       const std::vector<std::uint8_t>& desired) override;
  std::vector<std::uint8_t> get(const std::string& key) override;
  std::int64_t add(const std::string& key, std::int64_t value) override;
  bool deleteKey(const std::string& key) override;
  bool check(const std::vector<std::string>& keys) override;
  std::int64_t getNumKeys() override;
  void wait(const std::vector<std::string>& keys) override;
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) override;
  void append(const std::string& key, const std::vector<std::uint8_t>& value) override;
  std::vector<std::vector<std::uint8_t>> multiGet(const std::vector<std::string>& keys) override;
  void multiSet(const std::vector<std::string>& keys, const std::vector<std::vector<std::uint8_t>>& values) override;
  bool hasExtendedApi() const override { return true; }
  void queuePush(const std::string& key, const std::vector<std::uint8_t>& value) override;
  std::vector<std::uint8_t> queuePop(const std::string& key, bool block) override;
  std::int64_t queueLen(const std::string& key) override;
  std::vector<std::string> listKeys() override;

 private:
  rendezvous::Client client_;
};

}  // namespace ddprun

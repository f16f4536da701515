// Our client of the store (rendezvous/store/client.h) as LibTorch sees a store: one connection, and a deadline on every
// call.
//
// LibTorch's own client has deadlines on its waits alone: a store that hangs would hold a rank for ever. What is not
// there in time, or not answered, is a c10::DistStoreError; a store that is gone is a c10::DistNetworkError, and the
// next call connects anew. A time-out below zero is none; zero asks once.
//
// Any thread may call; calls take turns, so a thread that waits long has a clone() of its own: another connection.
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

#include "trainer/ddp/group/store_adapter.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <iterator>

namespace ddprun {
namespace {

using Bytes = std::vector<std::uint8_t>;

std::string text(const Bytes& bytes) { return {bytes.begin(), bytes.end()}; }

Bytes bytes(const std::string& text) { return {text.begin(), text.end()}; }

Duration limit_of(std::chrono::milliseconds timeout) {
  return timeout < timeout.zero() ? rendezvous::Client::kNoLimit : Duration(timeout);
}

// Converts the client's errors to those that LibTorch's callers expect.
template <class Call>
auto with_torch_errors(Call call) {
  try {
    return call();
  } catch (const rendezvous::TimeoutError& timeout) {
    C10_THROW_ERROR(DistStoreError, timeout.what());
  } catch (const Error& error) {
    C10_THROW_ERROR(DistNetworkError, error.what());
  }
}

}  // namespace

StoreAdapter::StoreAdapter(const rendezvous::Client::Options& options)
    : c10d::Store(std::chrono::duration_cast<std::chrono::milliseconds>(options.timeout)), client_(options) {}

c10::intrusive_ptr<c10d::Store> StoreAdapter::clone() {
  return with_torch_errors([&]() -> c10::intrusive_ptr<c10d::Store> {
    rendezvous::Client::Options options = client_.options();
    options.count_me = false;  // it is not another client
    options.timeout = limit_of(timeout_);
    return c10::make_intrusive<StoreAdapter>(options);
  });
}

void StoreAdapter::set(const std::string& key, const Bytes& value) {
  with_torch_errors([&] { client_.set(key, text(value), limit_of(timeout_)); });
}

Bytes StoreAdapter::compareSet(const std::string& key, const Bytes& expected, const Bytes& desired) {
  return with_torch_errors(
      [&] { return bytes(client_.compare_set(key, text(expected), text(desired), limit_of(timeout_))); });
}

Bytes StoreAdapter::get(const std::string& key) {
  return with_torch_errors([&] { return bytes(client_.get(key, limit_of(timeout_))); });
}

std::int64_t StoreAdapter::add(const std::string& key, std::int64_t value) {
  return with_torch_errors([&] { return client_.add(key, value, limit_of(timeout_)); });
}

bool StoreAdapter::deleteKey(const std::string& key) {
  return with_torch_errors([&] { return client_.delete_key(key, limit_of(timeout_)); });
}

bool StoreAdapter::check(const std::vector<std::string>& keys) {
  return with_torch_errors([&] { return client_.check(keys, limit_of(timeout_)); });
}

std::int64_t StoreAdapter::getNumKeys() {
  return with_torch_errors([&] { return client_.num_keys(limit_of(timeout_)); });
}

void StoreAdapter::wait(const std::vector<std::string>& keys) { wait(keys, timeout_); }

void StoreAdapter::wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) {
  with_torch_errors([&] { client_.wait(keys, limit_of(timeout)); });
}

void StoreAdapter::append(const std::string& key, const Bytes& value) {
  with_torch_errors([&] { client_.append(key, text(value), limit_of(timeout_)); });
}

std::vector<Bytes> StoreAdapter::multiGet(const std::vector<std::string>& keys) {
  return with_torch_errors([&] {
    std::vector<Bytes> values;
    for (const std::string& value : client_.multi_get(keys, limit_of(timeout_))) values.push_back(bytes(value));
    return values;
  });
}

void StoreAdapter::multiSet(const std::vector<std::string>& keys, const std::vector<Bytes>& values) {
  std::vector<std::string> texts;
  std::transform(values.begin(), values.end(), std::back_inserter(texts), text);
  with_torch_errors([&] { client_.multi_set(keys, texts, limit_of(timeout_)); });
}

void StoreAdapter::queuePush(const std::string& key, const Bytes& value) {
  with_torch_errors([&] { client_.queue_push(key, text(value), limit_of(timeout_)); });
}

Bytes StoreAdapter::queuePop(const std::string& key, bool block) {
  return with_torch_errors([&] {
    if (block) return bytes(client_.queue_pop(key, limit_of(timeout_)));
    const auto value = client_.queue_try_pop(key, limit_of(timeout_));
    if (!value) C10_THROW_ERROR(DistQueueEmptyError, "queue is empty");
    return bytes(*value);
  });
}

std::int64_t StoreAdapter::queueLen(const std::string& key) {
  return with_torch_errors([&] { return client_.queue_len(key, limit_of(timeout_)); });
}

std::vector<std::string> StoreAdapter::listKeys() {
  return with_torch_errors([&] { return client_.list_keys(limit_of(timeout_)); });
}

}  // namespace ddprun

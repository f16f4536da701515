// Converts a pickle's graph (pickle.h) to LibTorch's values. A node that is used in several places becomes one value.
#pragma once
#include <ATen/core/ivalue.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "trainer/ddp/snapshot/pickle.h"

namespace ddprun {

// The bytes of the storage with this key; throws Malformed if there is none.
using StorageReader = std::function<std::string_view(const std::string& key)>;

// Throws Malformed (damaged.h) if a storage is too small; other exceptions do not mean that the file is bad.
c10::IValue to_ivalue(const Pickle& pickle, const StorageReader& storage);

// Makes tensors one by one; a storage is read with the first of its tensors. Copies share what is read.
class PickleTensors {
 public:
  PickleTensors(Pickle pickle, StorageReader read);
  const Pickle& pickle() const;
  // Throws as to_ivalue() does.
  at::Tensor make(std::size_t tensor) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace ddprun

// A pickle's graph (pickle.h) as LibTorch's values. What is used in several places there is one value here, too.
#pragma once
#include <ATen/core/ivalue.h>

#include <functional>
#include <string>
#include <string_view>

#include "trainer/ddp/snapshot/pickle.h"

namespace ddprun {

// The bytes of the storage with this key; Malformed where there is none.
using StorageReader = std::function<std::string_view(const std::string& key)>;

// Malformed (damaged.h) where a storage is too small; whatever else it throws says nothing about the file.
c10::IValue to_ivalue(const Pickle& pickle, const StorageReader& storage);

}  // namespace ddprun

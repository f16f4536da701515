// Converts a pickle's graph (pickle.h) to LibTorch's values. A node that is used in several places becomes one value.
#pragma once
#include <ATen/core/ivalue.h>

#include <functional>
#include <string>
#include <string_view>

#include "trainer/ddp/snapshot/pickle.h"

namespace ddprun {

// The bytes of the storage with this key; throws Malformed if there is none.
using StorageReader = std::function<std::string_view(const std::string& key)>;

// Throws Malformed (damaged.h) if a storage is too small; other exceptions do not mean that the file is bad.
c10::IValue to_ivalue(const Pickle& pickle, const StorageReader& storage);

}  // namespace ddprun

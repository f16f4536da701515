// Snapshots of finished runs, compared to the last bit.
#pragma once
#include <string>

#include "trainer/ddp/snapshot/snapshot_format.h"

namespace ddprun::test {

Snapshot load_snapshot(const std::string& path);

// The names of all tensors and numbers that differ in their bits; round and generation are left out. Empty: the same.
std::string differences(const Snapshot& one, const Snapshot& other);

// Damages a file in one bit, a third of the way into it.
void flip_a_byte(const std::string& path);

bool same_bits(const at::Tensor& one, const at::Tensor& other);

}  // namespace ddprun::test

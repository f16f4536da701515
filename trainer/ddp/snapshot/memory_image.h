// A snapshot's value as the bytes that are kept in memory (rendezvous/memory/snapshot_memory.h): its pickle and its
// tensors' bytes, without the archive and the checksums of a file.
//
//   number of tensors, size of the pickle, size of each tensor: 64 bits each; the pickle; the tensors
#pragma once
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/ddp/snapshot/staging.h"

namespace ddprun {

// The value with tensors that MemoryImage takes as they are; those of a GPU are copied to `staging`. With `copies` they
// are there after copies->wait() only (Staging::begin()).
c10::IValue dense_value(const c10::IValue& value, Staging& staging);
c10::IValue begin_dense_value(const c10::IValue& value, Staging& staging, DeviceCopies& copies,
                              const std::set<const void*>& changing);

class MemoryImage {
 public:
  // Of what dense_value() returned. The tensors' bytes are read when pieces() are: change none of them before.
  explicit MemoryImage(const c10::IValue& dense);
  MemoryImage(const MemoryImage&) = delete;
  MemoryImage& operator=(const MemoryImage&) = delete;

  const std::vector<std::string_view>& pieces() const { return pieces_; }  // valid as long as this is
  std::uint64_t bytes() const;

 private:
  std::string head_;
  std::vector<at::Tensor> tensors_;
  std::vector<std::string_view> pieces_;
};

// The value, with tensors of its own. Throws Malformed (damaged.h).
c10::IValue value_of_image(std::string_view image);

}  // namespace ddprun

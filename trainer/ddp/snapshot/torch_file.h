// Values as the bytes of a file of torch.save(), and back. Nothing in a file is ever executed.
//
// Written: dicts, lists, strings, whole numbers, floats, bools, None and tensors, so that torch.load(weights_only=True)
// reads them. A record "ddprun.sha256" of the archive holds the SHA-256 of all records before it (torch.load does not
// detect a flipped byte). Read: what weights_only accepts, see pickle.h; the digest is checked if there is one.
#pragma once
#include <ATen/core/ivalue.h>

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/base/error.h"
#include "trainer/ddp/snapshot/unpickler.h"

namespace ddprun {

// A value's pickle, in which the tensors are named by their place in `tensors`: the value's own.
struct Pickled {
  std::string bytes;
  std::vector<at::Tensor> tensors;
};
Pickled pickle_of(const c10::IValue& value);

// 64 hexadecimal digits.
std::string sha256_of(std::string_view bytes);

// Piece by piece, in the file's order; tensors may be on any device. Returns the digest, 64 hexadecimal digits.
std::string write_torch_file(const c10::IValue& value,
                             const std::function<void(const void* data, std::size_t size)>& append);
std::string pack_torch_file(const c10::IValue& value);

struct Unpacked {
  c10::IValue value;
  std::string digest;  // empty: the file has none; else it was verified
};

// This machine lacks memory; the file may be good.
class NoMemory : public Error {
 public:
  explicit NoMemory(const std::string& name)
      : Error("cannot read " + name, "there is too little memory for it", "The file is left as it is.") {}
};

// Throws DamagedFile (damaged.h), with `name` in it, if the bytes are torn, altered or of another format. Any other
// exception, such as NoMemory, does not mean that the file is bad.
Unpacked unpack_torch_file(const std::string& bytes, const std::string& name);

// The same for what is no snapshot: reads any objects (read_object_pickle), TorchScript archives, and files from before
// PyTorch 1.6. `bytes` must outlive the result and its tensors' first use.
PickleTensors read_torch_objects(std::string_view bytes, const std::string& name);

}  // namespace ddprun

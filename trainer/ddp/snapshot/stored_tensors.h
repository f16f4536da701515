// The named tensors of a file of weights: of torch.save in each of its forms, of safetensors, of an index that names
// several of these, or of a folder that has one of them under its usual name.
#pragma once
#include <ATen/core/Tensor.h>

#include <array>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "trainer/ddp/snapshot/weights_match.h"

namespace ddprun {

inline constexpr std::array<std::pair<const char*, at::ScalarType>, 16> kSafetensorsTypes{
    {{"F64", at::kDouble},
     {"F32", at::kFloat},
     {"F16", at::kHalf},
     {"BF16", at::kBFloat16},
     {"I64", at::kLong},
     {"I32", at::kInt},
     {"I16", at::kShort},
     {"I8", at::kChar},
     {"U64", at::kUInt64},
     {"U32", at::kUInt32},
     {"U16", at::kUInt16},
     {"U8", at::kByte},
     {"BOOL", at::kBool},
     {"F8_E4M3", at::kFloat8_e4m3fn},
     {"F8_E5M2", at::kFloat8_e5m2},
     {"C64", at::kComplexFloat}}};

// `read` loads its content, which may be large, only when needed, and keeps the file's bytes.
struct StoredTensor {
  TensorShape shape;
  bool complex = false;
  std::function<at::Tensor()> read;
};

// At least one. Throws Error: cannot read <what> <path>: <why>. ...
std::vector<StoredTensor> read_stored_tensors(const std::string& path, const std::string& what);

// Of model-00001-of-00002.safetensors: the index beside it, which names all parts. Empty: it is no part of several.
std::string index_of_part(const std::string& path);

}  // namespace ddprun

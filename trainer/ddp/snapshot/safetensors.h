// The header of a safetensors file: which tensor lies where.
//
// A file is eight bytes with the header's length (little-endian), the header in JSON, and the tensors' bytes one after
// the other (row-major, little-endian). Source: https://github.com/huggingface/safetensors#format and its reader in
// Rust, whose limits these are: every byte belongs to exactly one tensor.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

struct SafeTensor {
  std::string name;
  std::string dtype;  // "F32", see safetensors_element_bytes()
  std::vector<std::int64_t> shape;
  std::size_t begin = 0, bytes = 0;  // in the whole file
};

// 0 for a type that is not known.
std::size_t safetensors_element_bytes(std::string_view dtype);

// Whether the file says that it is one; it may still be a bad one.
bool looks_like_safetensors(std::string_view file);

// In the order of their bytes; each lies inside the file and is as long as type and shape say. Error, with `name` in
// it, for whatever is torn or malformed.
std::vector<SafeTensor> parse_safetensors(std::string_view file, const std::string& name);

// The length and the header for tensors of these names, types and shapes, whose bytes follow in this order; padded with
// spaces so that they begin at a multiple of eight. `begin` and `bytes` are not read.
std::string safetensors_header(const std::vector<SafeTensor>& tensors);

}  // namespace ddprun

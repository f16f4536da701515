// The header of a safetensors file, which locates its tensors.
//
// A file is eight bytes with the header's length (little-endian), the header in JSON, and the tensors' bytes one after
// the other (row-major, little-endian). Source: https://github.com/huggingface/safetensors#format and its reader in
// Rust, whose limits are used here: every byte belongs to exactly one tensor.
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

// 0 for an unknown type.
std::size_t safetensors_element_bytes(std::string_view dtype);

// Whether the file begins like one; it may still be malformed.
bool looks_like_safetensors(std::string_view file);

// In the order of their bytes; each is inside the file and has the length of its type and shape. Throws Error, with
// `name` in it, if anything is torn or malformed.
std::vector<SafeTensor> parse_safetensors(std::string_view file, const std::string& name);

// The length and the header for tensors of these names, types and shapes, whose bytes follow in this order; padded with
// spaces so that they begin at a multiple of eight. `begin` and `bytes` are not read.
std::string safetensors_header(const std::vector<SafeTensor>& tensors);

}  // namespace ddprun

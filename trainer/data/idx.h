// Reads IDX, the container of MNIST: a big-endian header (two zero bytes, a type, the number of dimensions, each
// dimension as 32 bits) and then the values. Source: http://yann.lecun.com/exdb/mnist. Only unsigned bytes (type 8),
// which is all MNIST has.
//
// Detects gzip by content, not by name. Throws Error, naming the file, if anything is wrong with it.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace ddprun::train {

struct IdxArray {
  std::vector<std::int64_t> shape;
  std::vector<std::uint8_t> values;  // product(shape) values, the last dimension fastest
};

// Pure. `bytes` are the container's, already unpacked; `name` is for the messages.
IdxArray decode_idx(const std::vector<std::uint8_t>& bytes, const std::string& name);

IdxArray read_idx(const std::string& path);

}  // namespace ddprun::train

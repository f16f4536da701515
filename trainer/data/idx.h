// Reads IDX, the container of MNIST: a big-endian header (two zero bytes, a type, the number of dimensions, each
// dimension as 32 bits) and then the values. Source: http://yann.lecun.com/exdb/mnist. Only unsigned bytes (type 8),
// which is all MNIST has.
//
// Gzip or plain is told apart by the content, not by the name. Whatever is wrong with a file is an Error that names the
// file.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace ddprun::train {

struct IdxArray {
  std::vector<std::int64_t> shape;
  std::vector<std::uint8_t> values;  // product(shape) of them, the last dimension fastest
};

// `name` is for the messages. Decides only; `bytes` are those of the container, already unpacked.
IdxArray decode_idx(const std::vector<std::uint8_t>& bytes, const std::string& name);

// Reads `path`, or `path`.gz where there is no `path`.
IdxArray read_idx(const std::string& path);

}  // namespace ddprun::train

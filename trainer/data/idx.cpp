#include "trainer/data/idx.h"

#include "trainer/data/data_file.h"

namespace ddprun::train {
namespace {

// Limit for one unpacked file: MNIST's largest has 47 MB.
constexpr std::size_t kIdxBytesMax = std::size_t{4} << 30;

}  // namespace

IdxArray decode_idx(const std::vector<std::uint8_t>& bytes, const std::string& name) {
  if (bytes.size() < 4)
    throw malformed_data(name, "it has " + std::to_string(bytes.size()) + " bytes, too few for an IDX header");
  if (bytes[0] != 0 || bytes[1] != 0)
    throw malformed_data(name, "it does not begin with two zero bytes as an IDX file does");
  if (bytes[2] != 8)
    throw malformed_data(name,
                         "its values have IDX type " + std::to_string(bytes[2]) + ", only 8 (unsigned bytes) is known");
  const std::size_t dimensions = bytes[3], header = 4 + 4 * dimensions;
  if (dimensions == 0 || bytes.size() < header) throw malformed_data(name, "its header is cut short");
  IdxArray result;
  std::size_t count = 1;
  for (std::size_t at = 4; at < header; at += 4) {
    const std::size_t size = std::size_t{bytes[at]} << 24 | bytes[at + 1] << 16 | bytes[at + 2] << 8 | bytes[at + 3];
    result.shape.push_back(static_cast<std::int64_t>(size));
    if (size == 0 || count > kIdxBytesMax / size)
      throw malformed_data(name, "its header gives a dimension of " + std::to_string(size));
    count *= size;
  }
  if (bytes.size() - header != count)
    throw malformed_data(name, "its header promises " + std::to_string(count) + " values but " +
                                   std::to_string(bytes.size() - header) + " follow");
  result.values.assign(bytes.begin() + static_cast<std::ptrdiff_t>(header), bytes.end());
  return result;
}

IdxArray read_idx(const std::string& path) { return decode_idx(read_data_file(path), path); }

}  // namespace ddprun::train

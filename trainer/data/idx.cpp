#include "trainer/idx.h"

#include <unistd.h>
#include <zlib.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "rendezvous/error.h"

namespace ddprun {
namespace {

constexpr std::size_t kChunkBytes = 1 << 16;
// Of one file, unpacked: MNIST's largest has 47 MB. A file that unpacks to more is not one of these.
constexpr std::size_t kFileBytesMax = std::size_t{4} << 30;

Error malformed(const std::string& name, const std::string& why) {
  return Error("cannot read the data file " + name, why, "Fetch the file again, or name another folder with --data.");
}

// zlib reads plain files as they are and unpacks gzip.
std::vector<std::uint8_t> read_unpacked(const std::string& path) {
  std::unique_ptr<gzFile_s, decltype(&gzclose)> file(gzopen(path.c_str(), "rb"), gzclose);
  if (!file) throw malformed(path, std::strerror(errno));
  std::vector<std::uint8_t> bytes;
  std::array<std::uint8_t, kChunkBytes> chunk;
  int count = 0;
  while ((count = gzread(file.get(), chunk.data(), chunk.size())) > 0) {
    bytes.insert(bytes.end(), chunk.begin(), chunk.begin() + count);
    if (bytes.size() > kFileBytesMax) throw malformed(path, "it unpacks to more than 4 GiB");
  }
  int code = Z_OK;
  const char* text = gzerror(file.get(), &code);
  if (count < 0 || code == Z_BUF_ERROR) throw malformed(path, code == Z_ERRNO ? std::strerror(errno) : text);
  return bytes;
}

}  // namespace

IdxArray decode_idx(const std::vector<std::uint8_t>& bytes, const std::string& name) {
  if (bytes.size() < 4)
    throw malformed(name, "it has " + std::to_string(bytes.size()) + " bytes, too few for an IDX header");
  if (bytes[0] != 0 || bytes[1] != 0)
    throw malformed(name, "it does not begin with two zero bytes as an IDX file does");
  if (bytes[2] != 8)
    throw malformed(name,
                    "its values have IDX type " + std::to_string(bytes[2]) + ", only 8 (unsigned bytes) is known");
  const std::size_t dimensions = bytes[3], header = 4 + 4 * dimensions;
  if (dimensions == 0 || bytes.size() < header) throw malformed(name, "its header is cut short");
  IdxArray result;
  std::size_t count = 1;
  for (std::size_t at = 4; at < header; at += 4) {
    const std::size_t size = std::size_t{bytes[at]} << 24 | bytes[at + 1] << 16 | bytes[at + 2] << 8 | bytes[at + 3];
    result.shape.push_back(static_cast<std::int64_t>(size));
    if (size == 0 || count > kFileBytesMax / size)
      throw malformed(name, "its header gives a dimension of " + std::to_string(size));
    count *= size;
  }
  if (bytes.size() - header != count)
    throw malformed(name, "its header promises " + std::to_string(count) + " values but " +
                              std::to_string(bytes.size() - header) + " follow");
  result.values.assign(bytes.begin() + static_cast<std::ptrdiff_t>(header), bytes.end());
  return result;
}

IdxArray read_idx(const std::string& path) {
  const std::string packed = path + ".gz";
  if (access(path.c_str(), F_OK) == 0) return decode_idx(read_unpacked(path), path);
  if (access(packed.c_str(), F_OK) == 0) return decode_idx(read_unpacked(packed), packed);
  throw Error("cannot find the data file " + path, "neither it nor " + packed + " exists",
              "Name the folder that holds MNIST's four IDX files with --data.");
}

}  // namespace ddprun

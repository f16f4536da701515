#include "trainer/data/data_file.h"

#include <zlib.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>

#ifndef DDPRUN_SHARE_DIR  // relative to the installed program
#define DDPRUN_SHARE_DIR "../share/ddprun"
#endif

namespace ddprun::train {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kChunkBytes = 1 << 16;

std::string format_bytes(std::size_t bytes) {
  return bytes >> 30 ? std::to_string(bytes >> 30) + " GiB" : std::to_string(bytes) + " bytes";
}

}  // namespace

Error malformed_data(const std::string& name, const std::string& why) {
  return Error("cannot read the data file " + name, why, "Fetch the file again, or name another folder with --data.");
}

// zlib reads plain files unchanged and unpacks gzip.
std::vector<std::uint8_t> read_data_file(const std::string& path, std::size_t bytes_max) {
  std::error_code none;
  if (fs::is_directory(path, none)) throw malformed_data(path, "it is a folder");  // zlib's message for it is wrong
  std::unique_ptr<gzFile_s, decltype(&gzclose)> file(gzopen(path.c_str(), "rb"), gzclose);
  if (!file) throw malformed_data(path, std::strerror(errno));
  std::vector<std::uint8_t> bytes;
  std::array<std::uint8_t, kChunkBytes> chunk;
  int count = 0;
  while ((count = gzread(file.get(), chunk.data(), chunk.size())) > 0) {
    bytes.insert(bytes.end(), chunk.begin(), chunk.begin() + count);
    if (bytes.size() > bytes_max)
      throw malformed_data(path, "it has more than " + format_bytes(bytes_max) + ", unpacked");
  }
  int code = Z_OK;
  const char* text = gzerror(file.get(), &code);
  if (count < 0 || code == Z_BUF_ERROR) throw malformed_data(path, code == Z_ERRNO ? std::strerror(errno) : text);
  return bytes;
}

std::string find_data(const std::string& name, const std::string& data) {
  if (!data.empty()) return data;
  std::error_code none;
  const fs::path program = fs::read_symlink("/proc/self/exe", none).parent_path();
  const std::vector<fs::path> places{program / DDPRUN_SHARE_DIR / "data" / name,
                                     fs::path(DDPRUN_SOURCE_DIR) / "data" / name, fs::path("data") / name};
  std::string searched;
  for (const auto& place : places) {
    if (fs::is_directory(place, none)) return place;
    searched += (searched.empty() ? "" : ", ") + place.lexically_normal().string();
  }
  throw Error("cannot find the data set " + name, "there is no " + searched,
              "Name the folder with its files with --data.");
}

}  // namespace ddprun::train

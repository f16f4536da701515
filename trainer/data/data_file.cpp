#include "trainer/data/data_file.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>

#include "rendezvous/base/spelling.h"

#ifndef DDPRUN_SHARE_DIR  // relative to the installed program
#define DDPRUN_SHARE_DIR "../share/ddprun"
#endif

namespace ddprun::train {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kChunkBytes = 1 << 16;
constexpr int kDepthSearched = 3, kEntriesSearchedMax = 10'000;  // for a hint only

std::string format_bytes(std::size_t bytes) {
  return bytes >> 30 ? std::to_string(bytes >> 30) + " GiB" : std::to_string(bytes) + " bytes";
}

bool has_one_of(const fs::path& folder, const std::vector<std::string>& files) {
  std::error_code none;
  return std::any_of(files.begin(), files.end(),
                     [&](const std::string& file) { return fs::exists(folder / file, none); });
}

// The first folder below `root`, not far below, with one of the files; empty: none.
std::string search_below(const std::string& root, const std::vector<std::string>& files) {
  std::error_code error;
  int seen = 0;
  for (fs::recursive_directory_iterator at(root, fs::directory_options::skip_permission_denied, error), end;
       !error && at != end && seen < kEntriesSearchedMax; at.increment(error), ++seen) {
    if (at.depth() >= kDepthSearched) at.disable_recursion_pending();
    if (at->is_directory(error) && has_one_of(at->path(), files)) return at->path();
  }
  return {};
}

std::string archive_in(const std::string& root) {
  std::error_code error;
  for (fs::directory_iterator at(root, error), end; !error && at != end; at.increment(error))
    if (const std::string name = at->path().filename(); name.ends_with(".tar.gz") || name.ends_with(".tgz"))
      return name;
  return {};
}

// Below ./data, the root that most examples give to torchvision.
bool torchvision_has(const std::string& name) {
  std::error_code none;
  if (name == "mnist") return fs::is_directory("data/MNIST/raw", none);
  return name == "cifar10" &&
         (fs::is_directory("data/cifar-10-batches-py", none) || fs::is_directory("data/cifar-10-batches-bin", none));
}

}  // namespace

std::string folder_with(const std::vector<std::string>& files, const std::string& root,
                        const std::vector<std::string>& folders) {
  for (const std::string& folder : folders)
    if (has_one_of(fs::path(root) / folder, files)) return folder.empty() ? root : (fs::path(root) / folder).string();
  const std::string missing = root + "/" + files.front();
  const auto not_found = [&](const std::string& why, const std::string& remedy) {
    return Error("cannot find the data file " + missing, why, remedy);
  };
  std::error_code none;
  if (!fs::is_directory(root, none))
    throw not_found(fs::exists(root, none) ? root + " is no folder" : "there is no folder " + root,
                    "Name the folder that holds the data set's files with --data.");
  if (fs::exists(root + "/images.json"))
    throw not_found("the folder has a data set in shards", "Pass --dataset shards with it.");
  if (const std::string found = search_below(root, files); !found.empty())
    throw not_found("it is in " + found, "Pass --data " + found + ".");
  if (const std::string archive = archive_in(root); !archive.empty())
    throw not_found("there is only the archive " + archive,
                    "Unpack it there: tar -xzf " + root + "/" + archive + " -C " + root + ".");
  std::vector<std::string> searched;
  for (const std::string& folder : folders) searched.push_back(folder.empty() ? root : root + "/" + folder);
  throw not_found("it is not in " + listed(searched, "or"),
                  "Name the folder that holds the data set's files with --data.");
}

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
#ifdef DDPRUN_SOURCE_DIR
                                     fs::path(DDPRUN_SOURCE_DIR) / "data" / name,
#endif
                                     fs::path("data") / name};
  std::string searched;
  for (const auto& place : places) {
    if (fs::is_directory(place, none)) return place;
    searched += (searched.empty() ? "" : ", ") + place.lexically_normal().string();
  }
  if (torchvision_has(name)) return "data";
  throw Error("cannot find the data set " + name, "there is no " + searched,
              "Name the folder with its files with --data.");
}

}  // namespace ddprun::train

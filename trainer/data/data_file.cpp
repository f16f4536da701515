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
constexpr std::size_t kNamesShown = 6;

std::string format_bytes(std::size_t bytes) {
  return bytes >> 30 ? std::to_string(bytes >> 30) + " GiB" : std::to_string(bytes) + " bytes";
}

using HasFiles = std::function<bool(const std::string& folder)>;

// The first folder below `root`, not far below, that has the files; empty: none.
std::string search_below(const std::string& root, const HasFiles& has) {
  std::error_code error;
  int seen = 0;
  for (fs::recursive_directory_iterator at(root, fs::directory_options::skip_permission_denied, error), end;
       !error && at != end && seen < kEntriesSearchedMax; at.increment(error), ++seen) {
    if (at.depth() >= kDepthSearched) at.disable_recursion_pending();
    if (at->is_directory(error) && has(at->path())) return at->path();
  }
  return {};
}

// The command that unpacks the first archive there; empty: there is none.
std::string unpacking(const std::string& root, const std::string& name) {
  const std::string path = shell_word(root + "/" + name), into = shell_word(root);
  if (name.ends_with(".tar.gz") || name.ends_with(".tgz")) return "tar -xzf " + path + " -C " + into;
  if (name.ends_with(".tar")) return "tar -xf " + path + " -C " + into;
  return name.ends_with(".zip") ? "unzip " + path + " -d " + into : "";
}

// A folder's name without slashes at its end.
std::string trimmed_folder(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

UsageError no_folder(const std::string& missing, const std::string& root) {
  std::error_code none;
  const std::string what = "cannot find the data file " + missing,
                    name = "Name the folder that holds the data set's files with --data.";
  if (!fs::exists(root, none))
    return UsageError(what, "there is no folder " + root,
                      root.starts_with("~/")
                          ? "A shell replaces ~ only at the beginning of a word: put a blank before it, or write $HOME."
                          : name);
  const std::string folder = fs::path(root).parent_path();
  return UsageError(what, root + " is no folder",
                    folder.empty() ? name : "Name its folder: --data " + shell_word(folder) + ".");
}

// Below ./data, the root that most examples give to torchvision.
bool torchvision_has(const std::string& name) {
  std::error_code none;
  if (name == "mnist") return fs::is_directory("data/MNIST/raw", none);
  return name == "cifar10" &&
         (fs::is_directory("data/cifar-10-batches-py", none) || fs::is_directory("data/cifar-10-batches-bin", none));
}

}  // namespace

std::vector<std::string> names_in_folder(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> names;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    names.push_back(at->path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

std::string what_is_in(const std::string& folder) {
  const std::vector<std::string> names = names_in_folder(folder);
  if (names.empty()) return "is nothing";
  std::vector<std::string> shown;
  std::error_code none;
  for (std::size_t i = 0; i < std::min(names.size(), kNamesShown); ++i)
    shown.push_back(visible(names[i]) + (fs::is_directory(fs::path(folder) / names[i], none) ? "/" : ""));
  if (names.size() > kNamesShown) shown.push_back(std::to_string(names.size() - kNamesShown) + " more");
  return (names.size() == 1 ? "is " : "are ") + listed(shown, "and");
}

std::string folder_with(const std::string& file, const HasFiles& has, const std::string& given,
                        const std::vector<std::string>& folders) {
  const std::string root = trimmed_folder(given);
  for (const std::string& folder : folders)
    if (const std::string path = folder.empty() ? root : (fs::path(root) / folder).string(); has(path)) return path;
  const std::string missing = root + "/" + file;
  const auto not_found = [&](const std::string& why, const std::string& remedy) {
    return UsageError("cannot find the data file " + missing, why, remedy);
  };
  std::error_code none;
  if (!fs::is_directory(root, none)) throw no_folder(missing, root);
  if (fs::exists(root + "/images.json"))
    throw not_found("the folder has a data set in shards", "Pass --dataset shards with it.");
  if (const std::string found = search_below(root, has); !found.empty())
    throw not_found("it is in " + found, "Pass --data " + shell_word(found) + ".");
  const std::vector<std::string> names = names_in_folder(root);
  for (const std::string& name : names)
    if (const std::string command = unpacking(root, name); !command.empty())
      throw not_found((names.size() == 1 ? "there is only the archive " : "it may be in the archive ") + visible(name),
                      "Unpack it there: " + command + ".");
  std::vector<std::string> searched;
  for (const std::string& folder : folders) searched.push_back(folder.empty() ? root : root + "/" + folder);
  throw not_found("it is not in " + listed(searched, "or") + "; in " + root + " " + what_is_in(root),
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
  throw UsageError("cannot find the data set " + name, "there is no " + searched,
                   "Name the folder with its files with --data.");
}

}  // namespace ddprun::train

#include "trainer/data/mnist.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "rendezvous/base/error.h"
#include "trainer/data/data_file.h"
#include "trainer/data/idx.h"

namespace ddprun::train {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kDigits = 10;
const std::string kPacked = ".gz";
const std::vector<std::string> kFolders{"", "MNIST/raw", "raw"};

// What a file's name says: "emnist-digits-test-images.idx3-ubyte.gz".
struct Role {
  std::string set;  // "emnist-digits-", as a rule ""
  bool is_test = false, is_labels = false;
  int rank = 0;  // of names of the same file the least is taken
  auto operator<=>(const Role&) const = default;
};

using FilesByRole = std::map<Role, std::string>;

std::optional<Role> role_of(std::string name) {
  int rank = 0;
  if (name.ends_with(kPacked)) {
    name.resize(name.size() - kPacked.size());
    rank = 2;
  }
  for (const std::string split : {"train", "t10k", "test"})
    for (const bool labels : {false, true})
      for (const bool dot : {false, true}) {
        const std::string end =
            split + (labels ? "-labels" : "-images") + (dot ? "." : "-") + (labels ? "idx1-ubyte" : "idx3-ubyte");
        if (!name.ends_with(end)) continue;
        const std::string set = name.substr(0, name.size() - end.size());
        if (set.empty() || set.ends_with('-')) return Role{set, split != "train", labels, rank + dot};
      }
  return std::nullopt;
}

std::string usual_name(const std::string& set, bool is_test, bool is_labels) {
  return set + (is_test ? set.empty() ? "t10k" : "test" : "train") +
         (is_labels ? "-labels-idx1-ubyte" : "-images-idx3-ubyte");
}

// The files of a folder that have a role. An archive of Kaggle has each in a folder of its name.
FilesByRole files_by_role(const std::string& folder) {
  constexpr int kBelow = 4;
  FilesByRole found;
  for (const std::string& name : names_in_folder(folder)) {
    auto role = role_of(name);
    if (!role) continue;
    const std::string path = folder + "/" + name;
    if (!fs::is_directory(path)) {
      found.emplace(*role, path);
      continue;
    }
    for (const std::string& inner : names_in_folder(path)) {
      auto below = role_of(inner);
      if (!below || std::tie(below->is_test, below->is_labels) != std::tie(role->is_test, role->is_labels)) continue;
      below->rank += kBelow;
      if (!fs::is_directory(path + "/" + inner)) found.emplace(*below, path + "/" + inner);
    }
  }
  return found;
}

struct SplitFiles {
  std::string images, labels;
};

struct MnistFiles {
  SplitFiles train, test;
};

std::set<std::string> sets_in(const FilesByRole& files) {
  std::set<std::string> sets;
  for (const auto& [role, path] : files) sets.insert(role.set);
  return sets;
}

const std::string* file_of(const FilesByRole& files, const std::string& set, bool is_test, bool is_labels) {
  for (const auto& [role, path] : files)
    if (role.set == set && role.is_test == is_test && role.is_labels == is_labels) return &path;
  return nullptr;
}

bool is_complete(const FilesByRole& files, const std::string& set) {
  return file_of(files, set, false, false) && file_of(files, set, false, true) && file_of(files, set, true, false) &&
         file_of(files, set, true, true);
}

// MNIST's own where all of it is there; else the only one.
std::string set_to_read(const FilesByRole& files, const std::string& folder) {
  const std::set<std::string> sets = sets_in(files);
  if (sets.empty() || is_complete(files, "")) return "";
  if (sets.size() > 1)
    throw Error("cannot use the data set in " + folder,
                "there are several: files of " + usual_name(*sets.begin(), false, false) + " and of " +
                    usual_name(*std::next(sets.begin()), false, false),
                "Put the four files of one into a folder of their own, and name that with --data.");
  return *sets.begin();
}

MnistFiles find_mnist(const std::string& folder) {
  const FilesByRole files = files_by_role(folder);
  const std::string set = set_to_read(files, folder);
  const auto path_of = [&](bool is_test, bool is_labels) {
    if (const std::string* path = file_of(files, set, is_test, is_labels)) return *path;
    throw Error("cannot find the data file " + folder + "/" + usual_name(set, is_test, is_labels),
                "the data set lacks its " + std::string(is_labels ? "labels" : "images") + " to " +
                    (is_test ? "test" : "train") + " on; in the folder " + what_is_in(folder),
                "Name a folder with MNIST's four IDX files with --data.");
  };
  return {{path_of(false, false), path_of(false, true)}, {path_of(true, false), path_of(true, true)}};
}

bool has_mnist(const std::string& folder) {
  const auto names = names_in_folder(folder);
  return std::any_of(names.begin(), names.end(), [](const std::string& name) { return role_of(name).has_value(); });
}

bool has_all_of_mnist(const std::string& folder) {
  const FilesByRole files = files_by_role(folder);
  const std::set<std::string> sets = sets_in(files);
  return std::any_of(sets.begin(), sets.end(), [&](const std::string& set) { return is_complete(files, set); });
}

// A folder that has all of it, before one that has a file.
std::string folder_of_mnist(const std::string& root) {
  const bool all = std::any_of(kFolders.begin(), kFolders.end(), [&](const std::string& folder) {
    return has_all_of_mnist((fs::path(root) / folder).string());
  });
  return folder_with(usual_name("", false, false), all ? has_all_of_mnist : has_mnist, root, kFolders);
}

Error unusable(const std::string& path, const std::string& why) {
  return Error("cannot use the data file " + path, why, "Name a folder with MNIST's four IDX files with --data.");
}

void check_dimensions(const IdxArray& array, std::size_t dimensions, const std::string& path) {
  if (array.shape.size() != dimensions)
    throw unusable(
        path, "it has " + std::to_string(array.shape.size()) + " dimensions instead of " + std::to_string(dimensions));
}

void check_labels(const IdxArray& labels, const std::string& path) {
  for (std::size_t i = 0; i < labels.values.size(); ++i)
    if (labels.values[i] >= kDigits)
      throw unusable(path, "label " + std::to_string(i) + " is " + std::to_string(labels.values[i]) +
                               " and has to be from 0 to " + std::to_string(kDigits - 1));
}

Images read_split(const SplitFiles& files) {
  IdxArray images = read_idx(files.images);
  const IdxArray labels = read_idx(files.labels);
  check_dimensions(images, 3, files.images);
  check_dimensions(labels, 1, files.labels);
  if (labels.shape[0] != images.shape[0])
    throw unusable(files.labels, "it has " + std::to_string(labels.shape[0]) + " labels for " +
                                     std::to_string(images.shape[0]) + " images");
  check_labels(labels, files.labels);
  return {.channels = 1,
          .height = images.shape[1],
          .width = images.shape[2],
          .classes = kDigits,
          .pixels = std::move(images.values),
          .labels = {labels.values.begin(), labels.values.end()}};
}

}  // namespace

ImageSplits read_mnist(const std::string& root) {
  const MnistFiles files = find_mnist(folder_of_mnist(root));
  ImageSplits splits{.train = read_split(files.train), .test = read_split(files.test)};
  if (splits.train.height != splits.test.height || splits.train.width != splits.test.width)
    throw unusable(files.test.images, "its images differ in size from those to train on");
  return splits;
}

}  // namespace ddprun::train

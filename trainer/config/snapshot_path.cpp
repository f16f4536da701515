#include "trainer/config/snapshot_path.h"

#include <algorithm>
#include <cctype>
#include <filesystem>

namespace ddprun::train {
namespace {

constexpr std::size_t kNameBytesMax = 60;

bool is_plain(unsigned char c) { return c >= 0x80 || std::isalnum(c) || c == '-' || c == '_' || c == '.'; }

std::string stem_of(const std::string& path) {
  const std::filesystem::path named(path);
  std::string name = (named.has_filename() ? named : named.parent_path()).stem();
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !is_plain(static_cast<unsigned char>(c)); }, '_');
  const bool usable = name.size() <= kNameBytesMax && name.find_first_not_of('.') != std::string::npos;
  return usable ? name : "";
}

}  // namespace

std::string snapshot_path(const Options& options) {
  if (!options.snapshot.path.empty()) return options.snapshot.path;
  const std::string text = options.data.name == "text" ? stem_of(options.data.folder) : "";
  return "snapshot-" + options.model.name + "-" + (text.empty() ? options.data.name : text) + ".pt";
}

}  // namespace ddprun::train

#include "trainer/ddp/snapshot/weights_match.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "rendezvous/base/error.h"

namespace ddprun {
namespace {

constexpr std::size_t kNameBytesMax = 120;
constexpr std::size_t kNamesInError = 3;
constexpr std::size_t kNamesInReport = 8;
constexpr std::size_t kPrefixPartsMax = 16;
const std::string kBatchCount = ".num_batches_tracked", kBatchMean = ".running_mean";

using Places = std::unordered_map<std::string, std::size_t>;

std::string renamed(const std::string& name, const LoadOptions& options) {
  for (const auto& [from, to] : options.rename)
    if (name.starts_with(from)) return to + name.substr(from.size());
  return name;
}

bool skipped(const std::string& name, const LoadOptions& options) {
  return std::any_of(options.skip.begin(), options.skip.end(),
                     [&](const std::string& prefix) { return name.starts_with(prefix); });
}

std::vector<std::string> names_of(const std::vector<TensorShape>& file, std::size_t cut, const LoadOptions& options) {
  std::vector<std::string> names;
  for (const auto& tensor : file) names.push_back(renamed(tensor.name.substr(cut), options));
  return names;
}

std::ptrdiff_t known(const std::vector<std::string>& names, const Places& model) {
  return std::count_if(names.begin(), names.end(), [&](const auto& name) { return model.contains(name); });
}

// The lengths of what all names begin with, up to a dot, the shortest first: of "", "_orig_mod.", "_orig_mod.module.".
std::vector<std::size_t> common_prefixes(const std::vector<TensorShape>& file) {
  std::vector<std::size_t> lengths{0};
  while (!file.empty() && lengths.size() <= kPrefixPartsMax) {
    const std::string& first = file.front().name;
    const std::size_t dot = first.find('.', lengths.back());
    if (dot == std::string::npos) break;
    const std::string prefix = first.substr(0, dot + 1);
    if (!std::all_of(file.begin(), file.end(), [&](const auto& tensor) { return tensor.name.starts_with(prefix); }))
      break;
    lengths.push_back(prefix.size());
  }
  return lengths;
}

// How much of each name to leave out so that the most fit: a model may have a child called "module" itself.
std::size_t best_cut(const std::vector<TensorShape>& file, const Places& model, const LoadOptions& options) {
  std::size_t best = 0;
  std::ptrdiff_t fitting = -1;
  for (const std::size_t cut : common_prefixes(file))
    if (const auto count = known(names_of(file, cut, options), model); count > fitting) {
      best = cut;
      fitting = count;
    }
  return best;
}

// PyTorch has counted batch norm's batches since 0.4.1, and loads older files, too.
bool is_count_of_old_file(const std::string& name, const Places& found) {
  if (!name.ends_with(kBatchCount)) return false;
  return found.contains(name.substr(0, name.size() - kBatchCount.size()) + kBatchMean) &&
         std::none_of(found.begin(), found.end(), [](const auto& item) { return item.first.ends_with(kBatchCount); });
}

std::string item_text(const std::vector<std::int64_t>& shape) {
  std::string result;
  for (const auto size : shape) result += (result.empty() ? "" : " x ") + std::to_string(size);
  return result.empty() ? "one number" : result;
}

std::string item_text(const std::string& name) { return printable(name); }

std::string item_text(const ShapeMismatch& mismatch) {
  return printable(mismatch.name) + " (" + item_text(mismatch.in_file) + " in the file, " +
         item_text(mismatch.in_module) + " in the model)";
}

template <class T>
std::string list(const std::vector<T>& items, std::size_t shown_max) {
  std::string text;
  for (std::size_t i = 0; i < std::min(items.size(), shown_max); ++i) text += (i ? ", " : "") + item_text(items[i]);
  if (items.size() > shown_max) text += " and " + std::to_string(items.size() - shown_max) + " more";
  return text;
}

std::string mismatch_text(const LoadReport& report) {
  std::string text;
  const auto add = [&](const std::string& what, const std::string& names) {
    if (!names.empty()) text += (text.empty() ? "" : "; ") + what + names;
  };
  add("it lacks ", list(report.missing, kNamesInError));
  add("the model does not have its ", list(report.unexpected, kNamesInError));
  add("other shapes: ", list(report.mismatched, kNamesInError));
  return text;
}

}  // namespace

WeightsMatch match_weights(const std::vector<TensorShape>& file, const std::vector<TensorShape>& model,
                           const LoadOptions& options, const std::string& source) {
  Places places;
  for (std::size_t i = 0; i < model.size(); ++i) places.emplace(model[i].name, i);
  const std::size_t cut = best_cut(file, places, options);
  const auto names = names_of(file, cut, options);
  WeightsMatch match;
  if (cut > 0) {
    match.report.prefix = file.front().name.substr(0, cut);
    match.report.names_with_prefix = file.size();
  }
  Places found;  // in the file, by the model's names
  for (std::size_t i = 0; i < file.size(); ++i) {
    if (!found.emplace(names[i], i).second)
      throw UsageError(
          "cannot load " + source,
          "two of its tensors would be " + printable(names[i]) + ", one of them " + printable(file[i].name),
          "Change LoadOptions::rename.");
    if (!places.contains(names[i]) && !skipped(names[i], options)) match.report.unexpected.push_back(names[i]);
  }
  std::set<std::size_t> loaded;
  std::vector<std::size_t> absent;
  for (std::size_t i = 0; i < model.size(); ++i) {
    const auto& [name, shape, identity] = model[i];
    const auto it = found.find(name);
    if (skipped(name, options)) {
      match.report.skipped.push_back(name);
    } else if (it == found.end()) {
      absent.push_back(i);
    } else if (file[it->second].shape != shape) {
      match.report.mismatched.push_back({name, file[it->second].shape, shape});
    } else {
      match.report.loaded.push_back(name);
      match.pairs.emplace_back(it->second, i);
      loaded.insert(identity);
    }
  }
  for (const std::size_t i : absent)  // safetensors.torch.save_model keeps one name per tensor
    (loaded.contains(model[i].identity) || is_count_of_old_file(model[i].name, found) ? match.report.loaded
                                                                                      : match.report.missing)
        .push_back(model[i].name);
  const std::string why = mismatch_text(match.report);
  if (!options.partial && !why.empty())
    throw UsageError("cannot load " + source, why,
                     options.remedy.empty()
                         ? "Load it into the model it was saved from, or set LoadOptions::partial to take what fits."
                         : options.remedy);
  if (match.pairs.empty() && !why.empty())
    throw UsageError("cannot load " + source, "none of its tensors fits the model: " + why,
                     options.remedy.empty() ? "LoadOptions::rename makes names fit." : options.remedy);
  return match;
}

std::string printable(const std::string& name) {
  std::string text = name.substr(0, kNameBytesMax) + (name.size() > kNameBytesMax ? "..." : "");
  for (char& letter : text)
    if (static_cast<unsigned char>(letter) < ' ' || letter == '\x7f') letter = '?';
  return text;
}

std::string LoadReport::prefix_text() const {
  if (prefix.empty()) return "";
  if (names_with_prefix == 1) return "its only name begins with '" + printable(prefix) + "', which is left out";
  return "all " + std::to_string(names_with_prefix) + " names begin with '" + printable(prefix) +
         "', which is left out";
}

std::string LoadReport::text() const {
  const std::size_t all = loaded.size() + missing.size() + mismatched.size() + skipped.size();
  std::string text = "loaded " + std::to_string(loaded.size()) + " of " + std::to_string(all) + " tensors";
  if (!skipped.empty()) text += " (" + std::to_string(skipped.size()) + " skipped)";
  if (!missing.empty()) text += "; missing: " + list(missing, kNamesInReport);
  if (!unexpected.empty()) text += "; not in the model: " + list(unexpected, kNamesInReport);
  if (!mismatched.empty()) text += "; of other shapes: " + list(mismatched, kNamesInReport);
  if (!prefix.empty()) text += "; " + prefix_text();
  return text;
}

}  // namespace ddprun

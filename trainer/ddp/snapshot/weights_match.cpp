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
const std::string kPythonDdp = "module.";

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

// The file's names as expected in the model. A model may have a child called "module", so the prefix is removed only if
// more names fit without it.
std::vector<std::string> fitting_names(const std::vector<TensorShape>& file, const Places& model,
                                       const LoadOptions& options) {
  auto names = names_of(file, 0, options);
  if (!std::all_of(file.begin(), file.end(), [](const auto& tensor) { return tensor.name.starts_with(kPythonDdp); }))
    return names;
  auto cut = names_of(file, kPythonDdp.size(), options);
  return known(cut, model) > known(names, model) ? cut : names;
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
  const auto names = fitting_names(file, places, options);
  WeightsMatch match;
  Places found;  // in the file, by the model's names
  for (std::size_t i = 0; i < file.size(); ++i) {
    if (!found.emplace(names[i], i).second)
      throw Error("cannot load " + source,
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
    (loaded.contains(model[i].identity) ? match.report.loaded : match.report.missing).push_back(model[i].name);
  const std::string why = mismatch_text(match.report);
  if (!options.partial && !why.empty())
    throw Error("cannot load " + source, why,
                options.remedy.empty()
                    ? "Load it into the model it was saved from, or set LoadOptions::partial to take what fits."
                    : options.remedy);
  if (match.pairs.empty() && !why.empty())
    throw Error("cannot load " + source, "none of its tensors fits the model: " + why,
                "LoadOptions::rename makes names fit.");
  return match;
}

std::string printable(const std::string& name) {
  std::string text = name.substr(0, kNameBytesMax) + (name.size() > kNameBytesMax ? "..." : "");
  for (char& letter : text)
    if (static_cast<unsigned char>(letter) < ' ' || letter == '\x7f') letter = '?';
  return text;
}

std::string LoadReport::text() const {
  const std::size_t all = loaded.size() + missing.size() + mismatched.size() + skipped.size();
  std::string text = "loaded " + std::to_string(loaded.size()) + " of " + std::to_string(all) + " tensors";
  if (!skipped.empty()) text += " (" + std::to_string(skipped.size()) + " skipped)";
  if (!missing.empty()) text += "; missing: " + list(missing, kNamesInReport);
  if (!unexpected.empty()) text += "; not in the model: " + list(unexpected, kNamesInReport);
  if (!mismatched.empty()) text += "; of other shapes: " + list(mismatched, kNamesInReport);
  return text;
}

}  // namespace ddprun

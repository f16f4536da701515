#include "trainer/ddp/snapshot/stored_tensors.h"

#include <torch/torch.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "rendezvous/base/error.h"
#include "rendezvous/base/json_text.h"
#include "rendezvous/base/spelling.h"
#include "rendezvous/base/suggestion.h"
#include "trainer/ddp/snapshot/damaged.h"
#include "trainer/ddp/snapshot/files.h"
#include "trainer/ddp/snapshot/other_files.h"
#include "trainer/ddp/snapshot/safetensors.h"
#include "trainer/ddp/snapshot/torch_file.h"
#include "trainer/ddp/snapshot/unpickler.h"
#include "trainer/ddp/snapshot/weights_in_pickle.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

using FileBytes = std::shared_ptr<const std::string>;
using Stored = std::vector<StoredTensor>;

constexpr std::size_t kNamesShown = 5;
constexpr std::size_t kIndexBytesMax = 100'000'000;
// As Hugging Face's from_pretrained looks for them.
constexpr const char* kUsualNames[] = {"model.safetensors", "model.safetensors.index.json", "pytorch_model.bin",
                                       "pytorch_model.bin.index.json", "diffusion_pytorch_model.safetensors"};
constexpr const char* kEndings[] = {".pt", ".pth", ".bin", ".ckpt", ".safetensors", ".index.json"};

std::string first_of_names(std::vector<std::string> names) {
  for (std::string& name : names) name = printable(name);
  if (names.size() > kNamesShown) {
    const std::string more = std::to_string(names.size() - kNamesShown) + " more";
    names.resize(kNamesShown);
    names.push_back(more);
  }
  return listed(names, "and");
}

std::string is_or_are(const std::vector<std::string>& names) {
  if (names.empty()) return "is nothing";
  return (names.size() == 1 ? "is " : "are ") + first_of_names(names);
}

Error no_tensors(const FoundWeights& found, const std::string& source, const std::string& path) {
  if (found.candidates.size() > 1)
    return Error("cannot read " + source,
                 "several of its entries have named tensors: " + first_of_names(found.candidates),
                 by_python(path, "import torch; torch.save(torch.load(FROM, 'cpu', weights_only=False)['" +
                                     printable(found.candidates[0]) + "'], TO)"));
  const std::string entries = found.entries.empty() ? "" : "; in it " + is_or_are(found.entries);
  return Error("cannot read " + source, "it contains no named tensors" + entries,
               "A state_dict is expected, bare or in a dictionary.");
}

Stored stored_in_torch_file(const FileBytes& bytes, const std::string& source, const std::string& path) try {
  const PickleTensors tensors = read_torch_objects(*bytes, source);
  const FoundWeights found = find_weights(tensors.pickle());
  if (found.tensors.empty()) throw no_tensors(found, source, path);
  Stored result;
  for (const auto& [name, index] : found.tensors)
    result.push_back({{name, tensors.pickle().tensors[index].size}, false, [bytes, tensors, source, index = index] {
                        try {
                          return tensors.make(index);
                        } catch (const Malformed& error) {
                          throw DamagedFile("cannot read " + source, error.what());
                        }
                      }});
  return result;
} catch (const Malformed& error) {
  throw DamagedFile("cannot read " + source, error.what());
}

at::Tensor read_tensor(const char* bytes, const SafeTensor& entry, at::ScalarType type) {
  // As bytes first: a bool's byte may have any value.
  const at::Tensor tensor = torch::empty(entry.shape, type == at::kBool ? at::kByte : type);
  if (entry.bytes > 0) std::memcpy(tensor.data_ptr(), bytes + entry.begin, entry.bytes);  // may be unaligned
  return type == at::kBool ? tensor.ne(0) : tensor;
}

Stored stored_in_safetensors(const FileBytes& bytes, const std::string& source) {
  Stored result;
  for (const SafeTensor& entry : parse_safetensors(*bytes, source))
    for (const auto& [name, type] : kSafetensorsTypes)
      if (entry.dtype == name)
        result.push_back({{entry.name, entry.shape}, c10::isComplexType(type), [bytes, entry, type = type] {
                            return read_tensor(bytes->data(), entry, type);
                          }});
  if (result.empty()) throw Error("cannot read " + source, "it contains no named tensors");
  return result;
}

// The files of an index, {"weight_map": {name: file}}; none: it is something else.
std::set<std::string> files_of_index(const std::string& bytes, const std::string& source) {
  if (bytes.size() > kIndexBytesMax || bytes.find_first_not_of(" \n\r\t") != bytes.find('{')) return {};
  const auto json = parse_json(bytes);
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object()) return {};
  std::set<std::string> files;
  for (const auto& file : json["weight_map"]) {
    const std::string name = file.is_string() ? file.get<std::string>() : "";
    if (name.empty() || name.starts_with('.') || name.find('/') != name.npos)
      throw Error("cannot read " + source, "its weight_map names something other than a file beside it");
    files.insert(name);
  }
  return files;
}

Stored stored_in_file(const std::string& path, const std::string& what, bool is_part);

Stored stored_in_parts(const std::set<std::string>& files, const std::string& path, const std::string& what) {
  std::vector<std::string> missing;
  std::error_code none;
  for (const std::string& file : files)
    if (!fs::exists(fs::path(folder_of(path)) / file, none)) missing.push_back(file);
  if (!missing.empty())
    throw Error("cannot read " + what + " " + path,
                std::to_string(missing.size()) + " of its " + std::to_string(files.size()) +
                    " files are not beside it: " + first_of_names(missing),
                "Fetch them.");
  Stored result;
  for (const std::string& file : files) {
    Stored part = stored_in_file(folder_of(path) + "/" + file, what, /*is_part=*/true);
    std::move(part.begin(), part.end(), std::back_inserter(result));
  }
  return result;
}

Stored stored_in_file(const std::string& path, const std::string& what, bool is_part) {
  const std::string source = what + " " + path;
  const auto bytes = std::make_shared<const std::string>(read_whole_file(path, what));
  if (looks_like_safetensors(*bytes)) return stored_in_safetensors(bytes, source);
  if (!is_part)
    if (const auto files = files_of_index(*bytes, source); !files.empty()) return stored_in_parts(files, path, what);
  if (const auto other = other_file(*bytes, path))
    throw UsageError("cannot read " + source, other->what, other->remedy);
  return stored_in_torch_file(bytes, source, path);
}

std::vector<std::string> names_in(const std::string& folder, const std::string& what) {
  std::error_code error;
  std::vector<std::string> names;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    names.push_back(at->path().filename());
  if (error) throw Error("cannot read " + what + " " + folder, error.message());
  std::sort(names.begin(), names.end());
  return names;
}

Stored stored_in_folder(const std::string& folder, const std::string& what) {
  const auto names = names_in(folder, what);
  const auto has = [&](const std::string& name) { return std::find(names.begin(), names.end(), name) != names.end(); };
  for (const char* usual : kUsualNames)
    if (has(usual)) return stored_in_file(folder + "/" + usual, what, /*is_part=*/false);
  const std::string source = what + " " + folder;
  if (const auto other = other_folder(names, folder))
    throw UsageError("cannot read " + source, other->what, other->remedy);
  std::vector<std::string> likely;
  for (const std::string& name : names)
    if (std::any_of(std::begin(kEndings), std::end(kEndings), [&](const char* end) { return name.ends_with(end); }))
      likely.push_back(name);
  if (!likely.empty())
    throw UsageError("cannot read " + source, "it is a folder",
                     "Name a file in it, such as " + first_of_names(likely) + ".");
  throw UsageError("cannot read " + source, "it is a folder without weights; in it " + is_or_are(names));
}

// Without slashes at the end.
std::string trimmed(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

// A file beside it that was probably meant.
std::string near_file(const std::string& path, const std::string& what) {
  const std::string folder = folder_of(path),
                    found = nearest(fs::path(path).filename().string(), names_in(folder, what));
  return found.empty() ? "" : did_you_mean((fs::path(path).parent_path() / found).string()).substr(1);
}

}  // namespace

Stored read_stored_tensors(const std::string& given, const std::string& what) {
  std::error_code none;
  const std::string path = trimmed(given);
  if (fs::is_directory(path, none)) return stored_in_folder(path, what);
  if (path.starts_with("~/") && !fs::exists(path, none))
    throw UsageError("cannot read " + what + " " + path, "there is no folder ~ here",
                     "A shell replaces ~ only at the beginning of a word: put a blank before it, or write $HOME.");
  if (fs::status(path, none).type() == fs::file_type::not_found) {
    const bool has_folder = fs::is_directory(folder_of(path), none);
    throw UsageError("cannot read " + what + " " + path,
                     has_folder ? "there is no such file" : "there is no folder " + folder_of(path),
                     has_folder ? near_file(path, what) : "");
  }
  return stored_in_file(path, what, /*is_part=*/false);
}

std::string index_of_part(const std::string& path) {
  constexpr std::string_view kPart = "-00000-of-00000";  // with any digits
  const fs::path file(path);
  const std::string stem = file.stem();
  if (stem.size() < kPart.size()) return "";
  std::string part = stem.substr(stem.size() - kPart.size());
  std::replace_if(
      part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; }, '0');
  if (part != kPart) return "";
  const std::string whole = stem.substr(0, stem.size() - kPart.size()) + file.extension().string();
  const fs::path index = file.parent_path() / (whole + ".index.json");
  std::error_code none;
  return fs::exists(index, none) ? index.string() : "";
}

}  // namespace ddprun

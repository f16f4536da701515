#include "trainer/ddp/snapshot/other_files.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "rendezvous/base/spelling.h"
#include "trainer/ddp/snapshot/archive.h"
#include "trainer/ddp/snapshot/damaged.h"
#include "trainer/ddp/snapshot/legacy_torch_file.h"
#include "trainer/ddp/snapshot/safetensors.h"

namespace ddprun {
namespace {

using namespace std::string_view_literals;

constexpr std::size_t kTarBlock = 512, kTarMagicAt = 257, kTarNameMax = 100, kTarSizeAt = 124, kTarSizeDigits = 11,
                      kTarTypeAt = 156;
constexpr std::size_t kMembersMax = 64, kNamesShown = 3;

const std::string kAgain = "Fetch or copy it again.";
const std::string kOfPyTorch = "Take the same model's file of PyTorch or safetensors.";

struct Beginning {
  std::string_view bytes;
  const char *what, *remedy;
};

// In order: the first that fits counts.
const Beginning kBeginnings[] = {
    {"version https://git-lfs"sv, "it is a pointer of Git LFS, not the file that it stands for",
     "`git lfs pull` in its folder fetches that."},
    {"GGUF"sv, "it is a GGUF file, of llama.cpp", nullptr},
    {"lmgg"sv, "it is a GGML file, of llama.cpp", nullptr},
    {"tjgg"sv, "it is a GGML file, of llama.cpp", nullptr},
    {"\x89HDF\r\n\x1a\n"sv, "it is an HDF5 file, as Keras writes", nullptr},
    {"BZh"sv, "it is packed with bzip2", "Unpack it with bunzip2."},
    {"\xfd"
     "7zXZ\0"sv,
     "it is packed with xz", "Unpack it with unxz."},
    {"\x28\xb5\x2f\xfd"sv, "it is packed with zstd", "Unpack it with unzstd."},
    {"7z\xbc\xaf\x27\x1c"sv, "it is a 7z archive", "Unpack it, and name the file in it."},
    {"Rar!\x1a\x07"sv, "it is a RAR archive", "Unpack it, and name the file in it."},
    {"\x7f"
     "ELF"sv,
     "it is a program or a library", nullptr},
};

bool lower_starts_with(std::string_view text, std::string_view start) {
  const auto same = [](char wanted, char is) { return std::tolower(static_cast<unsigned char>(is)) == wanted; };
  return text.size() >= start.size() && std::equal(start.begin(), start.end(), text.begin(), same);
}

bool ends_with_any(std::string_view text, std::initializer_list<std::string_view> endings) {
  return std::any_of(endings.begin(), endings.end(), [&](std::string_view one) { return text.ends_with(one); });
}

std::string_view without_blanks(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r\n\xef\xbb\xbf");
  return first == text.npos ? std::string_view{} : text.substr(first);
}

// "a.pt, b.pt, c.pt and 4 more"
std::string shown(const std::vector<std::string>& names) {
  std::vector<std::string> first;
  for (std::size_t i = 0; i < std::min(names.size(), kNamesShown); ++i) first.push_back(visible(names[i]));
  if (names.size() > kNamesShown) first.push_back(std::to_string(names.size() - kNamesShown) + " more");
  return listed(first, "and");
}

std::vector<std::string> names_in_tar(std::string_view bytes) {
  std::vector<std::string> names;
  for (std::size_t at = 0; at + kTarBlock <= bytes.size() && bytes[at] != '\0' && names.size() < kMembersMax;) {
    const std::string_view header = bytes.substr(at, kTarBlock), name = header.substr(0, kTarNameMax);
    if (!std::isalpha(static_cast<unsigned char>(header[kTarTypeAt])))  // those describe the next one
      names.emplace_back(name.substr(0, name.find('\0')));
    std::size_t size = 0;
    for (const char digit : header.substr(kTarSizeAt, kTarSizeDigits))
      if (digit >= '0' && digit < '8') size = size * 8 + static_cast<std::size_t>(digit - '0');
    at += kTarBlock + (size + kTarBlock - 1) / kTarBlock * kTarBlock;
  }
  return names;
}

bool has(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool has_ending(const std::vector<std::string>& names, std::string_view ending) {
  return std::any_of(names.begin(), names.end(), [&](const auto& name) { return name.ends_with(ending); });
}

OtherFile tar_archive(std::string_view bytes, const std::string& path) {
  const auto names = names_in_tar(bytes);
  if (has(names, "storages") && has(names, "tensors") && has(names, "pickle"))
    return {"it is a tar archive of PyTorch 0.1", by_torch(path)};
  return {"it is a tar archive with " + shown(names),
          "Unpack it with tar -xf " + shell_word(path) + ", and name the file in it."};
}

// torch.save compresses nothing.
std::optional<OtherFile> repacked(std::string_view bytes, const std::string& path) try {
  if (Archive(bytes, Archive::Compressed::left_out).find("data.pkl")) return std::nullopt;
  return OtherFile{"it is a file of torch.save that was packed again, with compression", by_torch(path)};
} catch (const Malformed&) {
  return std::nullopt;  // the error of who reads it says more
}

std::optional<OtherFile> zip_archive(std::string_view bytes, const std::string& path) {
  const auto names = names_in_zip(bytes);
  if (names.empty()) return OtherFile{"it begins like a file of torch.save, and its end is missing", kAgain};
  if (has_ending(names, "/archive_format"))
    return OtherFile{"it is a program of torch.export",
                     by_python(path, "import torch; torch.save(torch.export.load(FROM).state_dict, TO)")};
  if (has_ending(names, "/data.pkl")) return repacked(bytes, path);
  if (has(names, "model.weights.h5") || (has(names, "config.json") && has(names, "metadata.json")))
    return OtherFile{"it is a file of Keras", kOfPyTorch};
  const auto is_array = [](const std::string& name) { return name.ends_with(".npy"); };
  if (std::all_of(names.begin(), names.end(), is_array))
    return OtherFile{"it is a .npz file of NumPy",
                     by_python(path,
                               "import numpy, torch; torch.save({name: torch.as_tensor(array) for name, array in "
                               "numpy.load(FROM).items()}, TO)")};
  return OtherFile{"it is a zip archive with " + shown(names),
                   "Unpack it with unzip " + shell_word(path) + ", and name the file in it."};
}

OtherFile gzip_file(const std::string& path) {
  if (ends_with_any(path, {".tar.gz", ".tgz"}))
    return {"it is an archive, packed with gzip",
            "Unpack it with tar -xzf " + shell_word(path) + ", and name the file in it."};
  if (path.ends_with(".gz")) return {"it is packed with gzip", "Unpack it with gunzip " + shell_word(path) + "."};
  return {"it is packed with gzip",
          "Unpack it with gunzip <" + shell_word(path) + " >" + shell_word(path + ".unpacked") + "."};
}

// Protocol buffers begin with a small version as field 1, and a field of bytes.
std::optional<OtherFile> protocol_buffer(std::string_view bytes, const std::string& path) {
  const bool is_versioned = bytes.size() > 3 && bytes[0] == 8 && (bytes[2] == 0x12 || bytes[2] == 0x3a);
  if (is_versioned && bytes[1] == 1) return OtherFile{"it is a SavedModel of TensorFlow", kOfPyTorch};
  if ((is_versioned && bytes[1] > 1 && bytes[1] < 32) || path.ends_with(".onnx"))
    return OtherFile{"it is an ONNX file", kOfPyTorch};
  if (path.ends_with(".pb")) return OtherFile{"it is a graph of TensorFlow", kOfPyTorch};
  return std::nullopt;
}

std::optional<OtherFile> tensorflow_file(std::string_view bytes, const std::string& path) {
  const bool is_index = bytes.ends_with("\x57\xfb\x80\x8b\x24\x75\x47\xdb"sv);
  if (is_index || path.find(".data-0000") != std::string::npos || ends_with_any(path, {".ckpt.index", ".ckpt.meta"}))
    return OtherFile{"it is a part of a checkpoint of TensorFlow", kOfPyTorch};
  if (bytes.substr(0, 8).ends_with("TFL3")) return OtherFile{"it is a file of TensorFlow Lite", kOfPyTorch};
  return std::nullopt;
}

OtherFile distributed_checkpoint(const std::string& folder) {
  return {"it is a checkpoint of torch.distributed.checkpoint",
          "Convert it with: python -m torch.distributed.checkpoint.format_utils dcp_to_torch " + shell_word(folder) +
              " " + shell_word(folder + ".pt")};
}

std::optional<OtherFile> text_file(std::string_view bytes) {
  const std::string_view text = without_blanks(bytes.substr(0, 4096));
  if (lower_starts_with(text, "<!doctype html") || lower_starts_with(text, "<html"))
    return OtherFile{"it is a web page, saved in place of the file",
                     "Fetch what the page's download link names: on Hugging Face with /resolve/ for /blob/."};
  if (lower_starts_with(text, "<?xml") || lower_starts_with(text, "<error"))
    return OtherFile{"it is XML, often a server's refusal in place of the file", kAgain};
  if (text.starts_with('{') || text.starts_with('[')) return OtherFile{"it is a JSON file, which has no weights", ""};
  const auto is_text = [](char c) {
    return static_cast<unsigned char>(c) >= ' ' || c == '\n' || c == '\r' || c == '\t';
  };
  if (!text.empty() && std::all_of(text.begin(), text.end(), is_text))
    return OtherFile{"it is a text file, neither of torch.save nor of safetensors", ""};
  return std::nullopt;
}

std::string in_quotes(const std::string& path) {
  const bool is_plain = path.find_first_of("'\"\\$`\n!") == std::string::npos;
  return is_plain ? "'" + path + "'" : "'FILE'";
}

}  // namespace

std::string by_python(const std::string& path, std::string statements) {
  const auto replace = [&](std::string_view word, const std::string& by) {
    if (const auto at = statements.find(word); at != std::string::npos) statements.replace(at, word.size(), by);
  };
  replace("FROM", in_quotes(path));
  replace("TO", in_quotes(path + ".pt"));
  return "If you trust the file, convert it with: python -c \"" + statements + "\"";
}

std::string by_torch(const std::string& path) {
  return by_python(path, "import torch; torch.save(torch.load(FROM, 'cpu', weights_only=False), TO)");
}

std::optional<OtherFile> other_file(std::string_view bytes, const std::string& path) {
  if (bytes.empty()) return OtherFile{"it is empty", kAgain};
  if (path.ends_with(".distcp") || path.ends_with("/.metadata") || path == ".metadata") {
    const auto slash = path.rfind('/');
    OtherFile part = distributed_checkpoint(slash == path.npos ? "." : path.substr(0, slash));
    part.what = "it is a part of a checkpoint of torch.distributed.checkpoint, which is a folder";
    return part;
  }
  if (bytes.starts_with("PK\x03\x04")) return zip_archive(bytes, path);
  if (looks_like_legacy_torch_file(bytes) || looks_like_safetensors(bytes)) return std::nullopt;
  for (const auto& [beginning, what, remedy] : kBeginnings)
    if (bytes.starts_with(beginning)) return OtherFile{what, remedy ? remedy : kOfPyTorch};
  if (bytes.starts_with("\x1f\x8b")) return gzip_file(path);
  if (bytes.size() >= kTarBlock && bytes.substr(kTarMagicAt).starts_with("ustar")) return tar_archive(bytes, path);
  if (const auto found = tensorflow_file(bytes, path)) return found;
  if (bytes.starts_with("\x93NUMPY"))
    return OtherFile{"it is a .npy file of NumPy, one array without a name",
                     "Save a dict of named tensors with torch.save."};
  if (bytes[0] == '\x80' && bytes.size() > 1 && bytes[1] >= 2 && bytes[1] <= 5)
    return OtherFile{"it is a pickle of Python, or the beginning of a file of PyTorch before 1.6",
                     by_python(path,
                               "import pickle, torch; torch.save({name: torch.as_tensor(value) for name, value in "
                               "pickle.load(open(FROM, 'rb')).items()}, TO)")};
  if (const auto found = protocol_buffer(bytes, path)) return found;
  if (path.ends_with(".msgpack")) return OtherFile{"it is a file of Flax", kOfPyTorch};
  if (const auto found = text_file(bytes)) return found;
  return OtherFile{"it is neither a file of torch.save nor of safetensors, or it is damaged", ""};
}

std::optional<OtherFile> other_folder(const std::vector<std::string>& names, const std::string& path) {
  if (has(names, ".metadata")) return distributed_checkpoint(path);
  if (has(names, "saved_model.pb")) return OtherFile{"it is a SavedModel of TensorFlow", kOfPyTorch};
  if (has(names, "zero_to_fp32.py"))
    return OtherFile{"it is a checkpoint of DeepSpeed",
                     "Convert it with: cd " + shell_word(path) +
                         " && python zero_to_fp32.py . weights, and name the folder weights"};
  if (has(names, "data.pkl") && has(names, "data")) {
    const auto slash = path.rfind('/');
    const std::string name = path.substr(slash == path.npos ? 0 : slash + 1);
    return OtherFile{"it is a file of torch.save that was unpacked",
                     "Pack it again: cd " + shell_word(slash == path.npos ? "." : path.substr(0, slash)) +
                         " && zip -0 -r " + shell_word(name + ".pt") + " " + shell_word(name)};
  }
  return std::nullopt;
}

}  // namespace ddprun

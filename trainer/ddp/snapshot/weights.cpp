#include "ddprun/weights.h"

#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <map>
#include <numeric>
#include <utility>

#include "rendezvous/base/error.h"
#include "trainer/ddp/snapshot/files.h"
#include "trainer/ddp/snapshot/named_tensors.h"
#include "trainer/ddp/snapshot/replace_file.h"
#include "trainer/ddp/snapshot/safetensors.h"
#include "trainer/ddp/snapshot/torch_file.h"
#include "trainer/ddp/snapshot/weights_match.h"

namespace ddprun {
namespace {

using Dict = c10::impl::GenericDict;

constexpr std::string_view kZip = "PK\x03\x04";
// Keys under which checkpoints store the weights.
constexpr std::array kStateKeys{"MODEL_STATE", "model_state_dict", "state_dict", "model"};

constexpr std::array<std::pair<const char*, at::ScalarType>, 16> kSafetensorsTypes{{{"F64", at::kDouble},
                                                                                    {"F32", at::kFloat},
                                                                                    {"F16", at::kHalf},
                                                                                    {"BF16", at::kBFloat16},
                                                                                    {"I64", at::kLong},
                                                                                    {"I32", at::kInt},
                                                                                    {"I16", at::kShort},
                                                                                    {"I8", at::kChar},
                                                                                    {"U64", at::kUInt64},
                                                                                    {"U32", at::kUInt32},
                                                                                    {"U16", at::kUInt16},
                                                                                    {"U8", at::kByte},
                                                                                    {"BOOL", at::kBool},
                                                                                    {"F8_E4M3", at::kFloat8_e4m3fn},
                                                                                    {"F8_E5M2", at::kFloat8_e5m2},
                                                                                    {"C64", at::kComplexFloat}}};
constexpr std::array kTorchTypes{at::kDouble, at::kFloat, at::kHalf, at::kBFloat16, at::kLong,
                                 at::kInt,    at::kShort, at::kChar, at::kByte,     at::kBool};

// --- Publishing

Error unwritable(const std::string& path, const NamedTensor& item, const std::string& format) {
  return Error("cannot write the weights " + path, printable(item.name) + " is of " +
                                                       at::toString(item.tensor.scalar_type()) + ", which " + format +
                                                       " cannot hold");
}

// On the CPU; copies a view, as otherwise its whole storage would be written.
std::vector<NamedTensor> weights_of(const torch::nn::Module& module) {
  auto weights = named_tensors(module);
  for (auto& [name, tensor] : weights) {
    tensor = tensor.detach().cpu().contiguous();
    if (tensor.storage().nbytes() != tensor.nbytes()) tensor = tensor.clone();
  }
  return weights;
}

void publish_torch(const std::vector<NamedTensor>& weights, const std::string& path) {
  Dict state(c10::AnyType::get(), c10::AnyType::get());
  for (const auto& item : weights) {
    if (std::find(kTorchTypes.begin(), kTorchTypes.end(), item.tensor.scalar_type()) == kTorchTypes.end())
      throw unwritable(path, item, "the torch format");
    state.insert(item.name, item.tensor);
  }
  replace_file(path, {pack_torch_file(state)}, "the weights");
}

const char* safetensors_type(at::ScalarType type) {
  for (const auto& [name, ours] : kSafetensorsTypes)
    if (ours == type) return name;
  return nullptr;
}

// The largest elements first, as in the format's own writer, so that each tensor is aligned to its type.
void publish_safetensors(std::vector<NamedTensor> weights, const std::string& path) {
  std::stable_sort(weights.begin(), weights.end(), [](const NamedTensor& one, const NamedTensor& other) {
    return one.tensor.element_size() > other.tensor.element_size();
  });
  std::vector<SafeTensor> header;
  for (const auto& item : weights) {
    const char* type = safetensors_type(item.tensor.scalar_type());
    if (!type || item.name == "__metadata__") throw unwritable(path, item, "safetensors");
    header.push_back({item.name, type, item.tensor.sizes().vec()});
  }
  const std::string head = safetensors_header(header);
  std::vector<std::string_view> pieces{head};
  for (const auto& [name, tensor] : weights)
    pieces.emplace_back(static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes());
  replace_file(path, pieces, "the weights");
}

// --- Loading

// A tensor of a file; `read` loads its content, which may be large, only when needed.
struct Stored {
  TensorShape shape;
  bool complex = false;
  std::function<at::Tensor()> read;
};

std::vector<Stored> stored_in_torch_file(const std::string& bytes, const std::string& source) {
  const c10::IValue value = unpack_torch_file(bytes, source).value;
  if (!value.isGenericDict()) throw Error("cannot read " + source, "it contains something other than a dict");
  Dict state = value.toGenericDict();
  for (const char* key : kStateKeys) {
    const auto it = state.find(key);
    if (it == state.end() || !it->value().isGenericDict()) continue;
    state = it->value().toGenericDict();
    break;
  }
  std::vector<Stored> result;
  for (const auto& item : state)
    if (item.key().isString() && item.value().isTensor()) {
      const at::Tensor tensor = item.value().toTensor();
      result.push_back({{item.key().toStringRef(), tensor.sizes().vec()}, false, [tensor] { return tensor; }});
    }
  return result;
}

at::Tensor read_tensor(const char* bytes, const SafeTensor& entry, at::ScalarType type) {
  // As bytes first: a bool's byte may have any value.
  const at::Tensor tensor = torch::empty(entry.shape, type == at::kBool ? at::kByte : type);
  if (entry.bytes > 0) std::memcpy(tensor.data_ptr(), bytes + entry.begin, entry.bytes);  // may be unaligned
  return type == at::kBool ? tensor.ne(0) : tensor;
}

std::vector<Stored> stored_in_safetensors(const std::string& bytes, const std::string& source) {
  std::vector<Stored> result;
  for (const SafeTensor& entry : parse_safetensors(bytes, source))
    for (const auto& [name, type] : kSafetensorsTypes)
      if (entry.dtype == name)
        result.push_back({{entry.name, entry.shape},
                          c10::isComplexType(type),
                          [data = bytes.data(), entry, type = type] { return read_tensor(data, entry, type); }});
  return result;
}

std::vector<Stored> stored_in(const std::string& bytes, const std::string& source) {
  auto stored = bytes.starts_with(kZip) ? stored_in_torch_file(bytes, source)
                : looks_like_safetensors(bytes)
                    ? stored_in_safetensors(bytes, source)
                    : throw Error("cannot read " + source,
                                  "it is neither a file of torch.save nor of safetensors, or it is damaged");
  if (stored.empty())
    throw Error("cannot read " + source, "it contains no named tensors",
                "A state_dict is expected, bare or under MODEL_STATE, model_state_dict, state_dict or model.");
  return stored;
}

std::vector<TensorShape> shapes_of(const std::vector<NamedTensor>& tensors) {
  std::map<const void*, std::size_t> identities;
  std::vector<TensorShape> shapes;
  for (const auto& [name, tensor] : tensors)
    shapes.push_back({name, tensor.sizes().vec(),
                      identities.emplace(tensor.unsafeGetTensorImpl(), identities.size()).first->second});
  return shapes;
}

std::vector<TensorShape> shapes_of(const std::vector<Stored>& tensors) {
  std::vector<TensorShape> shapes;
  for (const auto& tensor : tensors) shapes.push_back(tensor.shape);
  return shapes;
}

}  // namespace

void publish(const torch::nn::Module& module, const std::string& path, WeightsFormat format) {
  const bool as_safetensors =
      format == WeightsFormat::by_ending ? path.ends_with(".safetensors") : format == WeightsFormat::safetensors;
  if (as_safetensors)
    publish_safetensors(weights_of(module), path);
  else
    publish_torch(weights_of(module), path);
}

LoadReport load_weights(torch::nn::Module& module, const std::string& path, const LoadOptions& options) {
  const torch::NoGradGuard no_grad;
  const std::string source = "the weights " + path;
  const std::string bytes = read_whole_file(path, "the weights");
  const auto stored = stored_in(bytes, source);
  const auto tensors = named_tensors(module);
  const WeightsMatch match = match_weights(shapes_of(stored), shapes_of(tensors), options, source);
  for (const auto& [from, to] : match.pairs)
    if (stored[from].complex && !tensors[to].tensor.is_complex())
      throw Error("cannot load " + source,
                  printable(tensors[to].name) + " is complex in the file and real in the model");
  for (const auto& [from, to] : match.pairs) tensors[to].tensor.detach().copy_(stored[from].read());
  return match.report;
}

}  // namespace ddprun

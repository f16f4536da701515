#include "ddprun/weights.h"

#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <utility>

#include "rendezvous/base/error.h"
#include "trainer/ddp/snapshot/named_tensors.h"
#include "trainer/ddp/snapshot/replace_file.h"
#include "trainer/ddp/snapshot/safetensors.h"
#include "trainer/ddp/snapshot/stored_tensors.h"
#include "trainer/ddp/snapshot/torch_file.h"
#include "trainer/ddp/snapshot/weights_match.h"

namespace ddprun {
namespace {

using Dict = c10::impl::GenericDict;

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

std::vector<TensorShape> shapes_of(const std::vector<NamedTensor>& tensors) {
  std::map<const void*, std::size_t> identities;
  std::vector<TensorShape> shapes;
  for (const auto& [name, tensor] : tensors)
    shapes.push_back({name, tensor.sizes().vec(),
                      identities.emplace(tensor.unsafeGetTensorImpl(), identities.size()).first->second});
  return shapes;
}

std::vector<TensorShape> shapes_of(const std::vector<StoredTensor>& tensors) {
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

LoadReport load_weights(torch::nn::Module& module, const std::string& path, const LoadOptions& given) {
  LoadOptions options = given;
  if (const std::string index = index_of_part(path); !index.empty())
    options.remedy = "It is one file of several: name " + index + ", which has all of them.";
  const torch::NoGradGuard no_grad;
  const std::string source = options.what + " " + path;
  const auto stored = read_stored_tensors(path, options.what);
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

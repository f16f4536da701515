#include "trainer/ddp/snapshot/unpickler.h"

#include <torch/torch.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <variant>
#include <vector>

#include "trainer/ddp/snapshot/damaged.h"

namespace ddprun {
namespace {

using c10::IValue;

at::ScalarType type_of(Element element) {
  switch (element) {
    case Element::f32:
      return at::kFloat;
    case Element::f64:
      return at::kDouble;
    case Element::f16:
      return at::kHalf;
    case Element::bf16:
      return at::kBFloat16;
    case Element::i64:
      return at::kLong;
    case Element::i32:
      return at::kInt;
    case Element::i16:
      return at::kShort;
    case Element::i8:
      return at::kChar;
    case Element::u8:
      return at::kByte;
    case Element::boolean:
      return at::kBool;
  }
  return at::kByte;
}

at::Tensor read_storage(const PickleStorage& storage, const StorageReader& read) {
  const std::string_view bytes = read(storage.key);
  if (bytes.size() / bytes_of(storage.type) < static_cast<std::size_t>(storage.count))
    throw Malformed("a storage is smaller than it should be");
  const at::Tensor tensor = torch::empty({storage.count}, type_of(storage.type));
  if (storage.count > 0) std::memcpy(tensor.data_ptr(), bytes.data(), tensor.nbytes());
  return tensor;
}

at::Tensor view_of(const at::Tensor& memory, const PickleTensor& tensor) {
  const bool empty = std::count(tensor.size.begin(), tensor.size.end(), 0) > 0;
  return empty ? torch::empty(tensor.size, memory.scalar_type())
               : memory.as_strided(tensor.size, tensor.stride, tensor.offset);
}

class Builder {
 public:
  Builder(const Pickle& pickle, const StorageReader& read) : pickle_(pickle), built_(pickle.nodes.size()) {
    for (const PickleStorage& storage : pickle.storages) storages_.push_back(read_storage(storage, read));
  }

  // Recursion is as deep as the pickle's values, which has a limit.
  const IValue& build(NodeId id) {
    IValue& value = built_[id];
    if (value.isNone()) value = std::visit([&](const auto& node) { return make(node); }, pickle_[id]);
    return value;
  }

 private:
  IValue make(PickleNone) { return {}; }
  IValue make(bool value) { return value; }
  IValue make(std::int64_t value) { return value; }
  IValue make(double value) { return value; }
  IValue make(const std::string& text) { return text; }
  IValue make(const PickleTuple& tuple) {
    std::vector<IValue> items;
    for (const NodeId id : tuple.items) items.push_back(build(id));
    return c10::ivalue::Tuple::create(std::move(items));
  }
  IValue make(const PickleList& list) {
    c10::impl::GenericList result(c10::AnyType::get());
    for (const NodeId id : list.items) result.push_back(build(id));
    return result;
  }
  IValue make(const PickleDict& dict) {
    c10::impl::GenericDict result(c10::AnyType::get(), c10::AnyType::get());
    for (const auto& [key, value] : dict.items) result.insert_or_assign(build(key), build(value));
    return result;
  }
  IValue make(TensorId id) {
    const PickleTensor& tensor = pickle_.tensors[id.index];
    return view_of(storages_[tensor.storage], tensor);
  }
  IValue make(const PickleObject&) { return {}; }
  IValue make(const PickleName&) { return {}; }
  IValue make(StorageId) { return {}; }

  const Pickle& pickle_;
  std::vector<at::Tensor> storages_;
  std::vector<IValue> built_;
};

}  // namespace

IValue to_ivalue(const Pickle& pickle, const StorageReader& storage) {
  return Builder(pickle, storage).build(pickle.root);
}

struct PickleTensors::State {
  Pickle pickle;
  StorageReader read;
  std::vector<at::Tensor> storages;
};

PickleTensors::PickleTensors(Pickle pickle, StorageReader read)
    : state_(std::make_shared<State>(State{std::move(pickle), std::move(read), {}})) {
  state_->storages.resize(state_->pickle.storages.size());
}

const Pickle& PickleTensors::pickle() const { return state_->pickle; }

at::Tensor PickleTensors::make(std::size_t tensor) const {
  const PickleTensor& found = state_->pickle.tensors[tensor];
  at::Tensor& memory = state_->storages[found.storage];
  if (!memory.defined()) memory = read_storage(state_->pickle.storages[found.storage], state_->read);
  return view_of(memory, found);
}

}  // namespace ddprun

#include "trainer/ddp/snapshot.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/torch.h>

#include "rendezvous/error.h"
#include "trainer/ddp/torch_file.h"

namespace ddprun {
namespace {

using c10::IValue;
using List = c10::impl::GenericList;

List make_list() { return List(c10::AnyType::get()); }

List to_value(const BucketOrder& order) {
  List buckets = make_list();
  for (const auto& bucket : order) {
    List indices = make_list();
    for (const auto index : bucket) indices.push_back(static_cast<std::int64_t>(index));
    buckets.push_back(indices);
  }
  return buckets;
}

List to_value(const std::vector<RngState>& rng) {
  List ranks = make_list();
  for (const auto& state : rng) {
    Dict entry = make_dict();
    entry.insert("cpu", state.cpu.clone());  // of a part of a larger storage, the whole would be written
    if (state.cuda.defined()) entry.insert("cuda", state.cuda.clone());
    ranks.push_back(entry);
  }
  return ranks;
}

// Reads the parts of one snapshot; whatever is there but of another kind than it should be is an Error.
class Parts {
 public:
  Parts(Dict dict, const std::string& name) : dict_(std::move(dict)), name_(name) {}

  std::optional<IValue> find(const char* key) const {
    const auto it = dict_.find(key);
    return it == dict_.end() || it->value().isNone() ? std::nullopt : std::optional<IValue>(it->value());
  }
  std::int64_t number(const char* key) const {
    const auto value = find(key);
    if (value && (!value->isInt() || value->toInt() < 0)) throw strange(key);
    return value ? value->toInt() : 0;
  }
  std::optional<Dict> dict(const char* key) const {
    const auto value = find(key);
    if (value && !value->isGenericDict()) throw strange(key);
    return value ? std::optional(value->toGenericDict()) : std::nullopt;
  }
  BucketOrder bucket_order() const {
    BucketOrder order;
    for (const IValue& bucket : list("BUCKET_ORDER")) {
      if (!bucket.isList()) throw strange("BUCKET_ORDER");
      order.emplace_back();
      for (const IValue& index : bucket.toListRef()) {
        if (!index.isInt() || index.toInt() < 0) throw strange("BUCKET_ORDER");
        order.back().push_back(static_cast<std::size_t>(index.toInt()));
      }
    }
    return order;
  }
  std::vector<RngState> rng() const {
    std::vector<RngState> result;
    for (const IValue& entry : list("RNG")) {
      if (!entry.isGenericDict()) throw strange("RNG");
      const Parts state(entry.toGenericDict(), name_);
      result.push_back({state.tensor("cpu"), state.tensor("cuda")});
    }
    return result;
  }

 private:
  Error strange(const char* key) const {
    return Error("cannot read " + name_, std::string("its ") + key + " is not what it should be");
  }
  std::vector<IValue> list(const char* key) const {
    const auto value = find(key);
    if (value && !value->isList()) throw strange(key);
    return value ? value->toListRef().vec() : std::vector<IValue>{};
  }
  at::Tensor tensor(const char* key) const {
    const auto value = find(key);
    if (value && !value->isTensor()) throw strange(key);
    return value ? value->toTensor() : at::Tensor();
  }

  Dict dict_;
  const std::string& name_;
};

Dict as_dict(const Unpacked& unpacked, const std::string& name) {
  if (unpacked.value.isGenericDict()) return unpacked.value.toGenericDict();
  throw Error("cannot read " + name, "it holds something else than a dict");
}

}  // namespace

std::string encode(const Snapshot& s) {
  Dict dict = make_dict();
  dict.insert("MODEL_STATE", s.model_state);
  if (s.optimizer_state) dict.insert("OPTIMIZER_STATE", *s.optimizer_state);
  dict.insert("EPOCHS_RUN", s.epochs_run);
  dict.insert("STEP", s.step);
  dict.insert("SAMPLES_SEEN", s.samples_seen);
  dict.insert("RNG", to_value(s.rng));
  dict.insert("WORLD_SIZE", s.world_size);
  dict.insert("ROUND", s.round);
  dict.insert("BUCKET_ORDER", to_value(s.bucket_order));
  return pack_torch_file(dict);
}

Snapshot decode(const std::string& bytes, const std::string& name) {
  const Unpacked unpacked = unpack_torch_file(bytes, name);
  const Parts parts(as_dict(unpacked, name), name);
  const auto model_state = parts.dict("MODEL_STATE");
  if (!model_state) throw Error("cannot read " + name, "it has no MODEL_STATE, so it is no snapshot");
  // Ours always has a digest; Python's tutorial writes neither.
  if (parts.find("BUCKET_ORDER") && !unpacked.has_digest) throw Error("cannot read " + name, "its SHA-256 is missing");
  Snapshot s;
  s.model_state = *model_state;
  s.optimizer_state = parts.dict("OPTIMIZER_STATE");
  s.epochs_run = parts.number("EPOCHS_RUN");
  s.step = parts.number("STEP");
  s.samples_seen = parts.number("SAMPLES_SEEN");
  s.rng = parts.rng();
  s.world_size = parts.number("WORLD_SIZE");
  s.round = parts.number("ROUND");
  s.bucket_order = parts.bucket_order();
  return s;
}

Dict decode_weights(const std::string& bytes, const std::string& name) {
  const Dict dict = as_dict(unpack_torch_file(bytes, name), name);
  return Parts(dict, name).dict("MODEL_STATE").value_or(dict);
}

RngState rng_state(at::Device device) {
  at::Generator cpu = at::detail::getDefaultCPUGenerator();
  RngState state{cpu.get_state(), {}};
  if (!device.is_cuda()) return state;
  at::Generator cuda = at::globalContext().defaultGenerator(device);
  state.cuda = cuda.get_state();
  return state;
}

void set_rng_state(const RngState& state, at::Device device) {
  at::Generator cpu = at::detail::getDefaultCPUGenerator();
  if (state.cpu.defined()) cpu.set_state(state.cpu.clone());  // it wants memory aligned as its own
  if (!device.is_cuda() || !state.cuda.defined()) return;
  at::Generator cuda = at::globalContext().defaultGenerator(device);
  cuda.set_state(state.cuda);
}

}  // namespace ddprun

#include "trainer/ddp/snapshot/snapshot_format.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/torch.h>

#include <charconv>
#include <limits>

#include "rendezvous/base/error.h"
#include "trainer/ddp/snapshot/damaged.h"
#include "trainer/ddp/snapshot/pickle.h"
#include "trainer/ddp/snapshot/torch_file.h"

namespace ddprun {
namespace {

using c10::IValue;
using List = c10::impl::GenericList;
using nlohmann::json;

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
    entry.insert("cpu", state.cpu.clone());  // a view would be written with its whole storage
    if (state.cuda.defined()) entry.insert("cuda", state.cuda.clone());
    ranks.push_back(entry);
  }
  return ranks;
}

Dict to_value(const ScheduleState& schedule) {
  List rates = make_list();
  rates.push_back(schedule.lr);
  Dict dict = make_dict();
  dict.insert("last_epoch", schedule.steps);
  dict.insert("_step_count", schedule.steps + 1);
  dict.insert("_last_lr", rates);
  return dict;
}

Dict to_value(const SavedScaler& scaler) {
  Dict dict = make_dict();
  dict.insert("scale", scaler.state.scale);
  dict.insert("growth_factor", scaler.options.growth_factor);
  dict.insert("backoff_factor", scaler.options.backoff_factor);
  dict.insert("growth_interval", scaler.options.growth_interval);
  dict.insert("_growth_tracker", scaler.state.growth_tracker);
  return dict;
}

Dict to_value(const SamplerState& state) {
  Dict dict = make_dict();
  dict.insert("epoch", state.epoch);
  dict.insert("consumed", state.consumed);
  dict.insert("dataset_size", state.dataset_size);
  dict.insert("seed", std::to_string(state.seed));  // 64 bits, one more than the format's integers
  dict.insert("shuffle", state.shuffle);
  return dict;
}

Dict to_value(const ShardSamplerState& state) {
  List deals = make_list();
  for (const auto& deal : state.deals) {
    Dict entry = make_dict();
    entry.insert("world_size", static_cast<std::int64_t>(deal.world_size));
    entry.insert("taken", deal.taken);
    entry.insert("drop_last", deal.drop_last);
    deals.push_back(entry);
  }
  Dict dict = make_dict();
  dict.insert("epoch", state.epoch);
  dict.insert("deals", deals);
  dict.insert("data_digest", std::to_string(state.data_digest));
  dict.insert("seed", std::to_string(state.seed));
  dict.insert("shuffle", state.shuffle);
  dict.insert("mixed_shards", static_cast<std::int64_t>(state.mixed_shards));
  return dict;
}

at::Tensor packed(const json& value) {
  const std::vector<std::uint8_t> bytes = json::to_msgpack(value);
  return torch::from_blob(const_cast<std::uint8_t*>(bytes.data()), {static_cast<std::int64_t>(bytes.size())}, at::kByte)
      .clone();
}

json unpacked_json(const at::Tensor& bytes) {
  const auto* const data = bytes.const_data_ptr<std::uint8_t>();
  return json::from_msgpack(data, data + bytes.numel());
}

constexpr std::size_t kExtraValuesMax = kPickleNodesMax / 2;  // the rest is for the tensors
constexpr std::size_t kExtraTextMax = kPickleTextMax / 2;
constexpr std::size_t kExtraDepthMax = kPickleDepthMax - 2;  // it is nested in a dict

Error extra_error(const std::string& why) { return Error("cannot save the snapshot", "its extra values " + why); }

// Rejects values that could not be read back.
struct ExtraBudget {
  std::size_t values = kExtraValuesMax, text = kExtraTextMax;

  void take(std::size_t bytes, std::size_t depth) {
    if (depth > kExtraDepthMax) throw extra_error("are nested more than " + std::to_string(kExtraDepthMax) + " deep");
    if (values == 0) throw extra_error("are more than " + std::to_string(kExtraValuesMax));
    if (text < bytes) throw extra_error("have more than " + std::to_string(kExtraTextMax) + " bytes of text");
    --values;
    text -= bytes;
  }
};

// As Python values, because JSON text has no NaN.
IValue value_of(const json& extra, ExtraBudget& budget, std::size_t depth = 1) {
  budget.take(extra.is_string() ? extra.get_ref<const std::string&>().size() : 0, depth);
  switch (extra.type()) {
    case json::value_t::null:
      return IValue();
    case json::value_t::boolean:
      return extra.get<bool>();
    case json::value_t::number_integer:
    case json::value_t::number_unsigned:
      if (extra > std::numeric_limits<std::int64_t>::max()) throw extra_error("have a number above 2^63");
      return extra.get<std::int64_t>();
    case json::value_t::number_float:
      return extra.get<double>();
    case json::value_t::string:
      return extra.get<std::string>();
    case json::value_t::array: {
      List list = make_list();
      for (const json& item : extra) list.push_back(value_of(item, budget, depth + 1));
      return list;
    }
    case json::value_t::object: {
      Dict dict = make_dict();
      for (const auto& [key, item] : extra.items()) {
        budget.take(key.size(), depth + 1);
        dict.insert(key, value_of(item, budget, depth + 1));
      }
      return dict;
    }
    default:
      throw extra_error("have a type that JSON lacks");
  }
}

// Reads the parts of one snapshot; throws Error for a part of the wrong type.
class Parts {
 public:
  Parts(const Dict& dict, const std::string& name) : dict_(dict), name_(name) {}

  std::optional<IValue> find(const char* key) const {
    const auto it = dict_.find(key);
    return it == dict_.end() || it->value().isNone() ? std::nullopt : std::optional<IValue>(it->value());
  }
  std::int64_t number(const char* key) const {
    const auto value = find(key);
    if (value && (!value->isInt() || value->toInt() < 0)) throw invalid_part(key);
    return value ? value->toInt() : 0;
  }
  double real(const char* key) const {
    const auto value = find(key);
    if (!value || !(value->isDouble() || value->isInt())) throw invalid_part(key);
    return value->isInt() ? static_cast<double>(value->toInt()) : value->toDouble();
  }
  bool flag(const char* key) const {
    const auto value = find(key);
    if (!value || !value->isBool()) throw invalid_part(key);
    return value->toBool();
  }
  // A 64-bit number, stored as text.
  std::uint64_t unsigned_number(const char* key) const {
    const std::string digits = text(key);
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size()) throw invalid_part(key);
    return value;
  }
  std::string text(const char* key) const {
    const auto value = find(key);
    if (!value || !value->isString()) throw invalid_part(key);
    return value->toStringRef();
  }
  std::optional<Parts> parts(const char* key) const {
    const auto value = dict(key);
    return value ? std::optional<Parts>(std::in_place, *value, name_) : std::nullopt;
  }
  std::optional<ScheduleState> schedule() const {
    const auto state = parts("SCHEDULER_STATE");
    if (!state) return std::nullopt;
    return ScheduleState{state->number("last_epoch"), 0};
  }
  std::optional<SavedScaler> scaler() const {
    const auto state = parts("SCALER_STATE");
    if (!state || !state->find("scale")) return std::nullopt;  // Python's is empty if disabled
    return SavedScaler{{}, {state->real("scale"), state->number("_growth_tracker")}};
  }
  std::variant<std::monostate, SamplerState, ShardSamplerState> sampler() const {
    const auto state = parts("SAMPLER_STATE");
    if (!state) return {};
    if (!state->find("deals"))
      return SamplerState{state->number("epoch"), state->number("consumed"), state->number("dataset_size"),
                          state->unsigned_number("seed"), state->flag("shuffle")};
    ShardSamplerState shards;
    shards.epoch = state->number("epoch");
    for (const IValue& entry : state->list("deals")) {
      if (!entry.isGenericDict()) throw invalid_part("SAMPLER_STATE");
      const Parts deal(entry.toGenericDict(), name_);
      shards.deals.push_back(
          {static_cast<int>(deal.number("world_size")), deal.number("taken"), deal.flag("drop_last")});
    }
    shards.data_digest = state->unsigned_number("data_digest");
    shards.seed = state->unsigned_number("seed");
    shards.shuffle = state->flag("shuffle");
    shards.mixed_shards = static_cast<int>(state->number("mixed_shards"));
    return shards;
  }
  json extra() const {
    if (find("PACKED_EXTRA")) return packed_json("PACKED_EXTRA");
    const auto value = find("EXTRA");
    return value ? extra_of(*value) : json();
  }
  std::vector<json> own() const {
    if (!find("PACKED_OWN")) return {};
    const json list = packed_json("PACKED_OWN");
    if (!list.is_array()) throw invalid_part("PACKED_OWN");
    return list;
  }
  json packed_json(const char* key) const {
    const at::Tensor bytes = tensor(key);
    if (!bytes.defined() || bytes.scalar_type() != at::kByte || !bytes.is_contiguous()) throw invalid_part(key);
    try {
      return unpacked_json(bytes);
    } catch (const json::exception&) {
      throw invalid_part(key);
    }
  }
  RngState rng_state() const { return {tensor("cpu"), tensor("cuda")}; }
  std::optional<Dict> dict(const char* key) const {
    const auto value = find(key);
    if (value && !value->isGenericDict()) throw invalid_part(key);
    return value ? std::optional(value->toGenericDict()) : std::nullopt;
  }
  BucketOrder bucket_order() const {
    BucketOrder order;
    for (const IValue& bucket : list("BUCKET_ORDER")) {
      if (!bucket.isList()) throw invalid_part("BUCKET_ORDER");
      order.emplace_back();
      for (const IValue& index : bucket.toListRef()) {
        if (!index.isInt() || index.toInt() < 0) throw invalid_part("BUCKET_ORDER");
        order.back().push_back(static_cast<std::size_t>(index.toInt()));
      }
    }
    return order;
  }
  std::vector<RngState> rng() const {
    std::vector<RngState> result;
    for (const IValue& entry : list("RNG")) {
      if (!entry.isGenericDict()) throw invalid_part("RNG");
      result.push_back(Parts(entry.toGenericDict(), name_).rng_state());
    }
    return result;
  }

 private:
  json extra_of(const IValue& value) const {
    if (value.isNone()) return nullptr;
    if (value.isBool()) return value.toBool();
    if (value.isInt()) return value.toInt();
    if (value.isDouble()) return value.toDouble();
    if (value.isString()) return value.toStringRef();
    json result;
    if (value.isList()) {
      result = json::array();
      for (const IValue& item : value.toListRef()) result.push_back(extra_of(item));
    } else if (value.isGenericDict()) {
      result = json::object();
      for (const auto& item : value.toGenericDict()) {
        if (!item.key().isString()) throw invalid_part("EXTRA");
        result[item.key().toStringRef()] = extra_of(item.value());
      }
    } else {
      throw invalid_part("EXTRA");
    }
    return result;
  }
  DamagedFile invalid_part(const char* key) const {
    return DamagedFile("cannot read " + name_, std::string("its ") + key + " is invalid");
  }
  std::vector<IValue> list(const char* key) const {
    const auto value = find(key);
    if (value && !value->isList()) throw invalid_part(key);
    return value ? value->toListRef().vec() : std::vector<IValue>{};
  }
  at::Tensor tensor(const char* key) const {
    const auto value = find(key);
    if (value && !value->isTensor()) throw invalid_part(key);
    return value ? value->toTensor() : at::Tensor();
  }

  Dict dict_;
  const std::string& name_;
};

Dict as_dict(const IValue& value, const std::string& name) {
  if (value.isGenericDict()) return value.toGenericDict();
  throw DamagedFile("cannot read " + name, "it contains something other than a dict");
}

}  // namespace

IValue to_value(const OwnState& state) {
  Dict dict = make_dict();
  dict.insert("cpu", state.rng.cpu);
  if (state.rng.cuda.defined()) dict.insert("cuda", state.rng.cuda);
  dict.insert("PACKED_OWN", packed(state.own));
  return dict;
}

OwnState own_state_of(const IValue& value, const std::string& name) {
  const Parts parts(as_dict(value, name), name);
  return {parts.rng_state(), parts.packed_json("PACKED_OWN")};
}

IValue to_value(const Snapshot& s, Kept where) {
  Dict dict = make_dict();
  dict.insert("MODEL_STATE", s.model_state);
  if (s.optimizer_state) dict.insert("OPTIMIZER_STATE", *s.optimizer_state);
  if (s.schedule) dict.insert("SCHEDULER_STATE", to_value(*s.schedule));
  if (s.scaler) dict.insert("SCALER_STATE", to_value(*s.scaler));
  if (const auto* state = std::get_if<SamplerState>(&s.sampler)) dict.insert("SAMPLER_STATE", to_value(*state));
  if (const auto* state = std::get_if<ShardSamplerState>(&s.sampler)) dict.insert("SAMPLER_STATE", to_value(*state));
  dict.insert("EPOCHS_RUN", s.at.epochs_run);
  dict.insert("STEP", s.at.step);
  dict.insert("SAMPLES_SEEN", s.at.samples_seen);
  dict.insert("RNG", to_value(s.rng));
  dict.insert("WORLD_SIZE", s.world_size);
  dict.insert("ROUND", s.round);
  dict.insert("GENERATION", s.generation);
  if (s.metric) dict.insert("METRIC", *s.metric);
  dict.insert("BUCKET_ORDER", to_value(s.bucket_order));
  if (where == Kept::in_memory) {
    dict.insert("PACKED_EXTRA", packed(s.extra));
    dict.insert("PACKED_OWN", packed(s.own));
    return dict;
  }
  ExtraBudget budget;
  if (!s.extra.is_null()) dict.insert("EXTRA", value_of(s.extra, budget));
  return dict;
}

std::string encode(const Snapshot& snapshot) { return pack_torch_file(to_value(snapshot)); }

Snapshot decode(const std::string& bytes, const std::string& name) {
  const Unpacked unpacked = unpack_torch_file(bytes, name);
  return snapshot_of(unpacked.value, unpacked.digest, name);
}

Snapshot snapshot_of(const IValue& value, const std::string& digest, const std::string& name) {
  const Parts parts(as_dict(value, name), name);
  const auto model_state = parts.dict("MODEL_STATE");
  if (!model_state) throw DamagedFile("cannot read " + name, "it has no MODEL_STATE, so it is not a snapshot");
  // Our files always have a digest; Python's tutorial writes neither.
  if (parts.find("BUCKET_ORDER") && digest.empty()) throw DamagedFile("cannot read " + name, "its SHA-256 is missing");
  Snapshot s;
  s.model_state = *model_state;
  s.optimizer_state = parts.dict("OPTIMIZER_STATE");
  s.schedule = parts.schedule();
  s.scaler = parts.scaler();
  s.sampler = parts.sampler();
  s.at = {parts.number("EPOCHS_RUN"), parts.number("STEP"), parts.number("SAMPLES_SEEN")};
  s.rng = parts.rng();
  s.world_size = parts.number("WORLD_SIZE");
  s.round = parts.number("ROUND");
  s.generation = parts.number("GENERATION");
  if (parts.find("METRIC")) s.metric = parts.real("METRIC");
  s.bucket_order = parts.bucket_order();
  s.extra = parts.extra();
  s.own = parts.own();
  s.digest = digest;
  return s;
}

Dict decode_weights(const std::string& bytes, const std::string& name) {
  const Dict dict = as_dict(unpack_torch_file(bytes, name).value, name);
  return Parts(dict, name).dict("MODEL_STATE").value_or(dict);
}

RngState rng_state(at::Device device) {
  const at::Generator& cpu = at::detail::getDefaultCPUGenerator();
  RngState state{cpu.get_state(), {}};
  if (!device.is_cuda()) return state;
  at::Generator cuda = at::globalContext().defaultGenerator(device);
  state.cuda = cuda.get_state();
  return state;
}

void set_rng_state(const RngState& state, at::Device device) {
  at::Generator cpu = at::detail::getDefaultCPUGenerator();
  if (state.cpu.defined()) cpu.set_state(state.cpu.clone());  // it needs its own alignment
  if (!device.is_cuda() || !state.cuda.defined()) return;
  at::Generator cuda = at::globalContext().defaultGenerator(device);
  cuda.set_state(state.cuda);
}

}  // namespace ddprun

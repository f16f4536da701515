#include "tests/trainer/snapshot_compare.h"

#include <cstring>
#include <fstream>

#include "tests/support/command.h"

namespace ddprun::test {
namespace {

// Walks both values side by side.
void compare(const c10::IValue& a, const c10::IValue& b, const std::string& name, std::string& found) {
  const auto differ = [&] { found += name + " "; };
  if (a.tagKind() != b.tagKind()) return differ();
  if (a.isTensor()) {
    if (!same_bits(a.toTensor(), b.toTensor())) differ();
  } else if (a.isGenericDict()) {
    const auto da = a.toGenericDict(), db = b.toGenericDict();
    if (da.size() != db.size()) return differ();
    for (const auto& item : da) {
      const std::string key = item.key().isString() ? item.key().toStringRef() : std::to_string(item.key().toInt());
      const auto other = db.find(item.key());
      if (other == db.end()) return differ();
      compare(item.value(), other->value(), name + "." + key, found);
    }
  } else if (a.isList()) {
    const auto la = a.toListRef(), lb = b.toListRef();
    if (la.size() != lb.size()) return differ();
    for (std::size_t i = 0; i < la.size(); ++i) compare(la[i], lb[i], name + "[" + std::to_string(i) + "]", found);
  } else if (a != b) {
    differ();
  }
}

// Which name the run's own files.
nlohmann::json without_settings(nlohmann::json extra) {
  if (extra.is_object()) extra.erase("config");
  return extra;
}

}  // namespace

Snapshot load_snapshot(const std::string& path) { return decode(read_file(path), path); }

bool same_bits(const at::Tensor& one, const at::Tensor& other) {
  if (one.defined() != other.defined()) return false;
  if (!one.defined()) return true;
  if (one.sizes() != other.sizes() || one.scalar_type() != other.scalar_type()) return false;
  const auto a = one.contiguous(), b = other.contiguous();
  return std::memcmp(a.data_ptr(), b.data_ptr(), a.nbytes()) == 0;
}

std::string differences(const Snapshot& one, const Snapshot& other) {
  std::string found;
  compare(one.model_state, other.model_state, "MODEL_STATE", found);
  if (one.optimizer_state.has_value() != other.optimizer_state.has_value())
    found += "OPTIMIZER_STATE ";
  else if (one.optimizer_state)
    compare(*one.optimizer_state, *other.optimizer_state, "OPTIMIZER_STATE", found);
  if (one.at != other.at) found += "POSITION ";
  if (one.sampler != other.sampler) found += "SAMPLER_STATE ";
  if (one.schedule.has_value() != other.schedule.has_value() ||
      (one.schedule && one.schedule->steps != other.schedule->steps))
    found += "SCHEDULER_STATE ";
  if (one.scaler.has_value() != other.scaler.has_value() ||
      (one.scaler && (one.scaler->state.scale != other.scaler->state.scale ||
                      one.scaler->state.growth_tracker != other.scaler->state.growth_tracker)))
    found += "SCALER_STATE ";
  if (one.metric != other.metric) found += "METRIC ";
  if (without_settings(one.extra) != without_settings(other.extra)) found += "EXTRA ";
  if (one.world_size != other.world_size) found += "WORLD_SIZE ";
  if (one.bucket_order != other.bucket_order) found += "BUCKET_ORDER ";
  if (one.rng.size() != other.rng.size()) return found + "RNG";
  for (std::size_t rank = 0; rank < one.rng.size(); ++rank)
    if (!same_bits(one.rng[rank].cpu, other.rng[rank].cpu) || !same_bits(one.rng[rank].cuda, other.rng[rank].cuda))
      found += "RNG[" + std::to_string(rank) + "] ";
  return found;
}

void flip_a_byte(const std::string& path) {
  std::string bytes = read_file(path);
  bytes[bytes.size() / 3] ^= 1;
  std::ofstream(path, std::ios::binary) << bytes;
}

}  // namespace ddprun::test

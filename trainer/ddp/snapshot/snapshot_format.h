// A run's state between two steps: everything that a resumed run needs to continue bit for bit as if never stopped.
//
// torch.load(weights_only=True) reads its file; docs/internals/snapshot-format.md describes it. decode() also accepts a
// Python tutorial's {"MODEL_STATE", "EPOCHS_RUN"}: missing parts get their defaults.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "ddprun/amp.h"
#include "ddprun/distributed_data_parallel.h"
#include "ddprun/sampler.h"
#include "ddprun/shard_sampler.h"
#include "ddprun/snapshot.h"
#include "trainer/ddp/snapshot/state_dict.h"

namespace ddprun {

// One rank's generators. `cuda` is undefined without a GPU.
struct RngState {
  at::Tensor cpu, cuda;
};

struct ScheduleState {
  std::int64_t steps = 0;
  double lr = 0;  // for Python; ours is computed from the steps
};

// Includes its options, which Python needs.
struct SavedScaler {
  ScalerOptions options;
  ScalerState state;
};

struct Snapshot {
  Dict model_state = make_dict();
  std::optional<Dict> optimizer_state;
  std::optional<ScheduleState> schedule;
  std::optional<SavedScaler> scaler;
  std::variant<std::monostate, SamplerState, ShardSamplerState> sampler;
  Position at;
  std::vector<RngState> rng;    // by rank
  std::int64_t world_size = 0;  // 0: unknown
  std::int64_t round = 0;       // the launcher's
  std::int64_t generation = 0;  // snapshot_folder.h
  std::optional<double> metric;
  BucketOrder bucket_order;  // empty: unknown
  nlohmann::json extra;
  std::vector<nlohmann::json> own;  // by rank; in memory only
  std::string digest;               // of the content, from decode()
};

// The whole snapshot as one value, which shares its tensors. In memory JSON is kept as MessagePack, which costs a step
// less than values of LibTorch.
enum class Kept { on_disk, in_memory };
c10::IValue to_value(const Snapshot& snapshot, Kept where = Kept::on_disk);
std::string encode(const Snapshot& snapshot);

// Of such a value; `digest` is its own. Throws DamagedFile (damaged.h), with `name` in it.
Snapshot snapshot_of(const c10::IValue& value, const std::string& digest, const std::string& name);

// Throws DamagedFile (damaged.h), with `name` in it, if the bytes are torn, altered or not a snapshot; other exceptions
// do not mean that they are bad.
Snapshot decode(const std::string& bytes, const std::string& name);

// Only the weights, from a snapshot or a bare state_dict.
Dict decode_weights(const std::string& bytes, const std::string& name);

// One rank's part of a snapshot in memory.
struct OwnState {
  RngState rng;
  nlohmann::json own;
};
c10::IValue to_value(const OwnState& state);
OwnState own_state_of(const c10::IValue& value, const std::string& name);

// Gets and sets the state of this process's generators.
RngState rng_state(at::Device device);
void set_rng_state(const RngState& state, at::Device device);

}  // namespace ddprun

// A run's state between two epochs: everything that a resumed run needs to go on bit for bit as if it had never
// stopped.
//
// encode() gives the bytes of a file that torch.load(weights_only=True) reads; docs/snapshot-format.md describes it.
// decode() also takes a Python tutorial's {"MODEL_STATE", "EPOCHS_RUN"}: what is not in it has its default.
#pragma once
#include <string>
#include <vector>

#include "ddprun/distributed_data_parallel.h"
#include "trainer/ddp/state_dict.h"

namespace ddprun {

// One rank's generators. `cuda` is undefined without a GPU.
struct RngState {
  at::Tensor cpu, cuda;
};

struct Snapshot {
  Dict model_state = make_dict();
  std::optional<Dict> optimizer_state;
  std::int64_t epochs_run = 0;
  std::int64_t step = 0;          // optimizer steps since the beginning
  std::int64_t samples_seen = 0;  // over all ranks, the sampler's padding included
  std::vector<RngState> rng;      // by rank
  std::int64_t world_size = 0;    // 0: unknown
  std::int64_t round = 0;
  BucketOrder bucket_order;  // empty: unknown
};

std::string encode(const Snapshot& snapshot);

// Error, with `name` in it, for bytes that are torn, altered or no snapshot.
Snapshot decode(const std::string& bytes, const std::string& name);

// The weights alone, from a snapshot or from a state_dict saved as it is.
Dict decode_weights(const std::string& bytes, const std::string& name);

// This process's generators, and back.
RngState rng_state(at::Device device);
void set_rng_state(const RngState& state, at::Device device);

}  // namespace ddprun

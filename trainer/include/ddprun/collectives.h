// What the ranks of a group do together: sums, copies, messages; of tensors, and of anything that is JSON.
//
// Every rank of the group calls the same functions in the same order; each returns when this rank's part is done (with
// GPU tensors: when it is in the current stream's order). Ranks, `root`, `to` and `from` are the group's own. Tensors
// may have any strides: they are read and written as they are indexed. They are dense, on the CPU or on group.device(),
// of at most 16 dimensions. Autograd does not see these calls.
//
// Before anything is sent the ranks tell each other what they are about to do (InitOptions::check_calls): what does not
// fit together, or what one of them cannot do, is one sentence that all ranks throw, and the group stays usable.
// Without the check, shapes and types that differ where they must not are wrong numbers or a wait until the time-out.
// send, recv and sendrecv are not checked.
//
// PeerLost: a peer is gone, or has not come in time; the group is of no use any more. Other errors are std::exceptions,
// too.
//
// Source of what the operations mean: torch/distributed/distributed_c10d.py.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "ddprun/process_group.h"

#pragma GCC visibility push(default)
namespace ddprun {

// What a reduction does with the ranks' elements. By type, over gloo:
//   float, double, half, bfloat16   sum, product, min, max, avg
//   int8 to int64, uint8 to uint32  sum, product, min, max (sums and products wrap around), band, bor, bxor
//   bool                            sum, max and bor are or; product, min and band are and; bxor is xor
//   complex                         sum, avg
// NCCL: the same without band, bor and bxor of integers, and without bxor of bool.
// 16-bit integers and unsigned ones travel as wider ones. avg of integers and of bool is refused, as PyTorch does.
enum class ReduceOp { sum, product, min, max, avg, band, bor, bxor };

// `tensor` becomes the reduction of all ranks' tensors, on each of them. Equal shapes and types.
void all_reduce(const at::Tensor& tensor, ReduceOp op = ReduceOp::sum, const ProcessGroup& group = default_group());

// The same on `root` alone; the tensors of the others stay as they are.
void reduce(const at::Tensor& tensor, int root = 0, ReduceOp op = ReduceOp::sum,
            const ProcessGroup& group = default_group());

// `tensor` becomes root's. Equal shapes and types.
void broadcast(const at::Tensor& tensor, int root = 0, const ProcessGroup& group = default_group());

// Every rank's tensor, by rank. Shapes and types may differ; what is shorter in bytes than the longest travels padded.
std::vector<at::Tensor> all_gather(const at::Tensor& tensor, const ProcessGroup& group = default_group());

// Equal shapes and types: one tensor of shape [world_size, ...]. No message is needed before (see check_calls).
at::Tensor all_gather_stacked(const at::Tensor& tensor, const ProcessGroup& group = default_group());

// As all_gather(), on `root`; the others get an empty vector.
std::vector<at::Tensor> gather(const at::Tensor& tensor, int root = 0, const ProcessGroup& group = default_group());

// This rank's one of `tensors`, which root gives, one per rank, and the others leave empty. Shapes and types may
// differ. It comes on the CPU, or on group.device() where root's was on a GPU.
at::Tensor scatter(const std::vector<at::Tensor>& tensors, int root = 0, const ProcessGroup& group = default_group());

// The reduction of all ranks' tensors[rank]. One per rank, all of one type; shapes may differ within `tensors`, and are
// the same on all ranks.
at::Tensor reduce_scatter(const std::vector<at::Tensor>& tensors, ReduceOp op = ReduceOp::sum,
                          const ProcessGroup& group = default_group());

// Sends tensors[r] to rank r; gives what each rank has sent here. Shapes and types may differ. All on one device.
std::vector<at::Tensor> all_to_all(const std::vector<at::Tensor>& tensors, const ProcessGroup& group = default_group());

// Messages between two ranks. The receiver's tensor has the sender's shape and type: a longer message than expected
// ends the group. Messages with one tag, from one rank to one other, arrive in their order. To oneself: sendrecv only.
inline constexpr int kAnySource = -1;  // gloo only
void send(const at::Tensor& tensor, int to, int tag = 0, const ProcessGroup& group = default_group());
int recv(const at::Tensor& tensor, int from = kAnySource, int tag = 0,
         const ProcessGroup& group = default_group());  // returns who sent it
// Both at once, so that a ring of ranks does not wait for itself. The two tensors share no memory.
void sendrecv(const at::Tensor& sent, int to, const at::Tensor& received, int from, int tag = 0,
              const ProcessGroup& group = default_group());

// Returns once all ranks have come.
void barrier(const ProcessGroup& group = default_group());

// JSON values, NaN and infinities too (they travel as CBOR). Each of at most 1 GiB.
std::vector<nlohmann::json> all_gather_object(const nlohmann::json& object,
                                              const ProcessGroup& group = default_group());
std::vector<nlohmann::json> gather_object(const nlohmann::json& object, int root = 0,
                                          const ProcessGroup& group = default_group());  // empty but on root
nlohmann::json broadcast_object(const nlohmann::json& object, int root = 0,
                                const ProcessGroup& group = default_group());  // root's; what others give is ignored
nlohmann::json scatter_object(const std::vector<nlohmann::json>& objects, int root = 0,
                              const ProcessGroup& group = default_group());  // root gives one per rank
void send_object(const nlohmann::json& object, int to, int tag = 0, const ProcessGroup& group = default_group());
nlohmann::json recv_object(int from = kAnySource, int tag = 0, const ProcessGroup& group = default_group());

// Of the default group. Without one, this process is a world of its own, and synchronize() returns at once: code that
// uses them runs with and without a launcher.
int rank();
int local_rank();
int world_size();
int local_world_size();
bool is_main_process();
void synchronize();

// The mean (or the sum) over the ranks of each value, on every rank. The same names on all of them.
std::map<std::string, double> reduce_dict(const std::map<std::string, double>& values, bool average = true,
                                          const ProcessGroup& group = default_group());
// The same for tensors, added up as doubles: with equal shapes; results have the type that came, but the mean of
// integers is double.
std::map<std::string, at::Tensor> reduce_dict(const std::map<std::string, at::Tensor>& values, bool average = true,
                                              const ProcessGroup& group = default_group());

}  // namespace ddprun
#pragma GCC visibility pop

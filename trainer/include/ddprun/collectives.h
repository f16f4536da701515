// Collectives and messages between the ranks of a group, for tensors and for JSON values.
//
// Every rank of the group calls the same functions in the same order; each returns when this rank's part is done (with
// GPU tensors: when it is enqueued in the current stream). Ranks, `root`, `to` and `from` are ranks within the group.
// Tensors may have any strides. They must be dense, on the CPU or on group.device(), of at most 16 dimensions. Autograd
// does not record these calls.
//
// Before any data is sent, the ranks exchange a description of the call (InitOptions::check_calls): if the descriptions
// do not match, or one rank cannot do its part, all ranks throw the same sentence and the group stays usable. Without
// the check, mismatched shapes and types give wrong numbers or a wait until the time-out. send, recv and sendrecv are
// not checked.
//
// PeerLost: a peer died or did not arrive within the time-out; the group is unusable from then on. All other errors are
// std::exceptions, too.
//
// Source of the semantics: torch/distributed/distributed_c10d.py.
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

// `tensor` becomes the reduction of all ranks' tensors, on every rank. Shapes and types must be equal.
void all_reduce(const at::Tensor& tensor, ReduceOp op = ReduceOp::sum, const ProcessGroup& group = default_group());

// The same on `root` only; the other ranks' tensors stay unchanged.
void reduce(const at::Tensor& tensor, int root = 0, ReduceOp op = ReduceOp::sum,
            const ProcessGroup& group = default_group());

// `tensor` becomes a copy of root's. Shapes and types must be equal.
void broadcast(const at::Tensor& tensor, int root = 0, const ProcessGroup& group = default_group());

// Every rank's tensor, by rank. Shapes and types may differ; each is sent padded to the longest in bytes.
std::vector<at::Tensor> all_gather(const at::Tensor& tensor, const ProcessGroup& group = default_group());

// For equal shapes and types: one tensor of shape [world_size, ...]. Needs no message beforehand (but see check_calls).
at::Tensor all_gather_stacked(const at::Tensor& tensor, const ProcessGroup& group = default_group());

// As all_gather(), on `root`; the others get an empty vector.
std::vector<at::Tensor> gather(const at::Tensor& tensor, int root = 0, const ProcessGroup& group = default_group());

// Root passes one tensor per rank, the others an empty vector; returns this rank's tensor. Shapes and types may differ.
// The result is on the CPU, or on group.device() if root's was on a GPU.
at::Tensor scatter(const std::vector<at::Tensor>& tensors, int root = 0, const ProcessGroup& group = default_group());

// The reduction of all ranks' tensors[rank]. `tensors` has one per rank, all of one type; shapes may differ within it,
// but are the same on all ranks.
at::Tensor reduce_scatter(const std::vector<at::Tensor>& tensors, ReduceOp op = ReduceOp::sum,
                          const ProcessGroup& group = default_group());

// Sends tensors[r] to rank r; returns what each rank sent to this one. Shapes and types may differ. All on one device.
std::vector<at::Tensor> all_to_all(const std::vector<at::Tensor>& tensors, const ProcessGroup& group = default_group());

// Messages between two ranks. The receiver's tensor must have the sender's shape and type: a longer message makes the
// group unusable. Messages with one tag from one rank to another arrive in order. To oneself: sendrecv only.
inline constexpr int kAnySource = -1;  // gloo only
void send(const at::Tensor& tensor, int to, int tag = 0, const ProcessGroup& group = default_group());
int recv(const at::Tensor& tensor, int from = kAnySource, int tag = 0,
         const ProcessGroup& group = default_group());  // returns the sender's rank
// Both at once, so that a ring of ranks does not deadlock. The two tensors must not share memory.
void sendrecv(const at::Tensor& sent, int to, const at::Tensor& received, int from, int tag = 0,
              const ProcessGroup& group = default_group());

// Returns once all ranks have called it.
void barrier(const ProcessGroup& group = default_group());

// JSON values, including NaN and infinities (they are sent as CBOR), of at most 1 GiB each.
std::vector<nlohmann::json> all_gather_object(const nlohmann::json& object,
                                              const ProcessGroup& group = default_group());
std::vector<nlohmann::json> gather_object(const nlohmann::json& object, int root = 0,
                                          const ProcessGroup& group = default_group());  // empty on other ranks
nlohmann::json broadcast_object(const nlohmann::json& object, int root = 0,
                                const ProcessGroup& group = default_group());  // root's; the others' is ignored
nlohmann::json scatter_object(const std::vector<nlohmann::json>& objects, int root = 0,
                              const ProcessGroup& group = default_group());  // root passes one per rank
void send_object(const nlohmann::json& object, int to, int tag = 0, const ProcessGroup& group = default_group());
nlohmann::json recv_object(int from = kAnySource, int tag = 0, const ProcessGroup& group = default_group());

// For the default group. Without one, the world is this process alone, and synchronize() returns at once: code that
// uses these functions runs with and without a launcher.
int rank();
int local_rank();
int world_size();
int local_world_size();
bool is_main_process();
void synchronize();

// The mean (or the sum) over the ranks of each value, on every rank. All ranks must pass the same names.
std::map<std::string, double> reduce_dict(const std::map<std::string, double>& values, bool average = true,
                                          const ProcessGroup& group = default_group());
// The same for tensors of equal shapes, added up as doubles; results keep their type, except that the mean of integers
// is double.
std::map<std::string, at::Tensor> reduce_dict(const std::map<std::string, at::Tensor>& values, bool average = true,
                                              const ProcessGroup& group = default_group());

}  // namespace ddprun
#pragma GCC visibility pop

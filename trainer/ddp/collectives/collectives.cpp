#include "ddprun/collectives.h"

#include <ATen/MemoryOverlap.h>
#include <torch/torch.h>

#include <algorithm>
#include <numeric>

#include "rendezvous/base/error.h"
#include "rendezvous/channel/beat_scope.h"
#include "trainer/ddp/collectives/reduce_wire.h"
#include "trainer/ddp/collectives/tensor_moves.h"
#include "trainer/ddp/group/group_state.h"

namespace ddprun {
namespace {

using moves::announce;
using Tensors = std::vector<at::Tensor>;

constexpr std::int64_t kAligned = 16;  // bytes: every element type may begin there

std::string sizes_text(at::IntArrayRef sizes) {
  std::string text = "[";
  for (std::size_t i = 0; i < sizes.size(); ++i) text += (i ? ", " : "") + std::to_string(sizes[i]);
  return text + "]";
}

std::string device_suffix(const at::Tensor& tensor) {
  return tensor.defined() && tensor.is_cuda() ? " on the GPU" : "";
}

std::string describe(const at::Tensor& tensor) {
  if (!tensor.defined()) return "no tensor";
  return std::string(toString(tensor.scalar_type())) + " " + sizes_text(tensor.sizes()) + device_suffix(tensor);
}

std::string problem_of(const at::Tensor& tensor, const ProcessGroup& group) {
  if (!tensor.defined()) return "the tensor is undefined";
  if (tensor.layout() != at::kStrided || tensor.is_quantized()) return "the tensor is not a dense one";
  if (tensor.dim() > Record::kDimsMax)
    return "the tensor has more than " + std::to_string(Record::kDimsMax) + " dimensions";
  if (!tensor.is_cpu() && tensor.device() != group.device())
    return "the tensor is on " + tensor.device().str() + ", but this group moves tensors of the CPU" +
           (group.device().is_cuda() ? " and of " + group.device().str() : "");
  return "";
}

std::string problem_of_output(const at::Tensor& tensor, const ProcessGroup& group) {
  const std::string problem = problem_of(tensor, group);
  if (problem.empty() && at::has_internal_overlap(tensor) == at::MemOverlap::Yes)
    return "elements of the tensor share memory, as expand() makes them: clone() it first";
  return problem;
}

std::string problem_of_list(const Tensors& tensors, const ProcessGroup& group) {
  if (tensors.size() != static_cast<std::size_t>(group.world_size()))
    return "it takes one tensor for each of the " + std::to_string(group.world_size()) + " ranks, not " +
           std::to_string(tensors.size());
  for (const auto& tensor : tensors) {
    const std::string problem = problem_of(tensor, group);
    if (!problem.empty()) return problem;
    if (tensor.device() != tensors[0].device()) return "its tensors are not on one device";
  }
  return "";
}

std::string in_range(const char* what, int rank, const ProcessGroup& group) {
  if (rank >= 0 && rank < group.world_size()) return "";
  return std::string(what) + " is " + std::to_string(rank) + ", but ranks count from 0 to " +
         std::to_string(group.world_size() - 1);
}

std::string first_problem(const std::string& problem, const std::string& other) {
  return problem.empty() ? other : problem;
}

// --- Moving: as bytes, so that every element type is supported.

at::Tensor empty_bytes(std::int64_t count, at::Device device) {
  return at::empty({count}, at::TensorOptions().dtype(at::kByte).device(device));
}

// The tensor's own memory if it is contiguous, else a copy.
at::Tensor as_bytes(const at::Tensor& tensor) {
  const at::Tensor dense = tensor.detach().resolve_conj().resolve_neg().contiguous();
  return dense.numel() == 0 ? empty_bytes(0, dense.device()) : dense.view({-1}).view(at::kByte);
}

void copy_from_bytes(const at::Tensor& tensor, const at::Tensor& bytes) {
  if (bytes.numel() > 0 && !bytes.is_alias_of(tensor))
    tensor.detach().copy_(bytes.view(tensor.scalar_type()).view(tensor.sizes()));
}

Record record_with(const std::string& call, const std::string& problem, const at::Tensor& tensor) {
  Record record = record_of(call, problem);
  if (!problem.empty()) return record;
  record.type = static_cast<std::int8_t>(tensor.scalar_type());
  record.on_gpu = tensor.is_cuda();
  record.dims = static_cast<std::int16_t>(tensor.dim());
  record.bytes = tensor.numel() * static_cast<std::int64_t>(tensor.element_size());
  std::copy(tensor.sizes().begin(), tensor.sizes().end(), record.sizes);
  return record;
}

at::Tensor tensor_of(const Record& record, const at::Tensor& bytes) {
  const at::IntArrayRef sizes(record.sizes, static_cast<std::size_t>(record.dims));
  const auto type = static_cast<at::ScalarType>(record.type);
  if (record.bytes == 0) return at::empty(sizes, bytes.options().dtype(type));
  return bytes.narrow(0, 0, record.bytes).view(type).view(sizes);
}

std::int64_t aligned(std::int64_t bytes) { return (bytes + kAligned - 1) / kAligned * kAligned; }

// Bytes per rank if all parts are padded to one length.
std::int64_t stride_of(const std::vector<Record>& records) {
  std::int64_t longest = 0;
  for (const Record& record : records) longest = std::max(longest, record.bytes);
  const bool equal = std::all_of(records.begin(), records.end(), [&](const Record& record) {
    return record.bytes == longest && record.type == records[0].type;
  });
  return equal ? longest : aligned(longest);
}

at::Tensor padded(const at::Tensor& tensor, std::int64_t stride) {
  const at::Tensor bytes = as_bytes(tensor);
  if (bytes.numel() == stride) return bytes;
  at::Tensor longer = at::zeros({stride}, bytes.options());
  longer.narrow(0, 0, bytes.numel()).copy_(bytes);
  return longer;
}

Tensors split(const at::Tensor& buffer, const std::vector<Record>& records, std::int64_t stride) {
  Tensors parts;
  for (std::size_t i = 0; i < records.size(); ++i)
    parts.push_back(tensor_of(records[i], buffer.narrow(0, static_cast<std::int64_t>(i) * stride, stride)));
  return parts;
}

at::Tensor bytes_of(std::vector<Record>& records) {
  return torch::from_blob(records.data(), static_cast<std::int64_t>(records.size() * sizeof(Record)), at::kByte);
}

// --- Reducing.

void all_reduce_on_wire(const std::string& call, const at::Tensor& tensor, const Wire& wire,
                        const ProcessGroup& group) {
  if (tensor.numel() == 0 || group.world_size() == 1) return;
  Tensors values{to_wire(tensor, wire)};
  c10d::AllreduceOptions options;
  options.reduceOp = backend_op(wire, tensor);
  run_c10d_call(group, call, [&](c10d::ProcessGroup& c10d) { return c10d.allreduce(values, options); });
  if (divides_after(wire, tensor)) values[0].div_(group.world_size());
  from_wire(tensor, values[0], wire);
}

std::string call_name(const char* name, ReduceOp op, int root = -1) {
  return std::string(name) + "(" + name_of(op) + (root < 0 ? "" : ", root " + std::to_string(root)) + ")";
}

void refuse_if_problem(const std::string& call, const std::string& problem) {
  if (!problem.empty()) throw UsageError("cannot " + call, problem);
}

std::string problem_of_message(const at::Tensor& tensor, const char* what, int peer, int tag,
                               const ProcessGroup& group) {
  const std::string problem = first_problem(problem_of(tensor, group), in_range(what, peer, group));
  return problem.empty() && tag < 0 ? "its tag is below 0" : problem;
}

// An empty message is sent as one byte, so that it can be waited for.
at::Tensor message_of(const at::Tensor& tensor) {
  at::Tensor bytes = as_bytes(tensor);
  return bytes.numel() > 0 ? bytes : at::zeros({1}, bytes.options());
}

}  // namespace

namespace moves {

std::string call_name(const char* name, int root) { return std::string(name) + "(root " + std::to_string(root) + ")"; }

void announce(const ProcessGroup& group, const std::string& call, const std::string& problem) {
  if (group.state().check_calls) agree(group, record_of(call, problem));
  refuse_if_problem(call, problem);
}

std::string problem_of_root(int root, const ProcessGroup& group) { return in_range("its root", root, group); }

void all_reduce(const std::string& call, const at::Tensor& tensor, ReduceOp op, const std::string& problem,
                const ProcessGroup& group) {
  const Wire wire = wire_for(tensor, op);
  announce(group, call, first_problem(problem, first_problem(problem_of_output(tensor, group), wire.problem)));
  all_reduce_on_wire(call, tensor, wire, group);
}

Tensors all_gather(const std::string& name, const at::Tensor& tensor, const std::string& problem,
                   const ProcessGroup& group) {
  const std::string call = name + device_suffix(tensor);
  const auto records = agree(group, record_with(call, first_problem(problem, problem_of(tensor, group)), tensor));
  const std::int64_t stride = stride_of(records);
  at::Tensor all = empty_bytes(stride * group.world_size(), tensor.device());
  if (stride > 0 && group.world_size() > 1) {
    at::Tensor own = padded(tensor, stride);
    run_c10d_call(group, call, [&](c10d::ProcessGroup& c10d) { return c10d._allgather_base(all, own); });
  } else {
    all.copy_(as_bytes(tensor));
  }
  return split(all, records, stride);
}

Tensors gather(const std::string& name, const at::Tensor& tensor, int root, const std::string& problem,
               const ProcessGroup& group) {
  const std::string call = name + device_suffix(tensor);
  const std::string any_problem =
      first_problem(problem, first_problem(problem_of_root(root, group), problem_of(tensor, group)));
  const auto records = agree(group, record_with(call, any_problem, tensor));
  const std::int64_t stride = stride_of(records), world = group.world_size();
  const bool is_root = group.rank() == root;
  at::Tensor all = empty_bytes(is_root ? stride * world : 0, tensor.device());
  if (stride > 0 && world > 1) {
    Tensors own{padded(tensor, stride)};
    std::vector<Tensors> parts;
    if (is_root) parts.push_back(all.split(stride));
    c10d::GatherOptions options;
    options.rootRank = root;
    run_c10d_call(group, call, [&](c10d::ProcessGroup& c10d) { return c10d.gather(parts, own, options); });
  } else if (is_root) {
    all.copy_(as_bytes(tensor));
  }
  return is_root ? split(all, records, stride) : Tensors{};
}

at::Tensor scatter(const std::string& call, const Tensors& tensors, int root, const std::string& problem,
                   const ProcessGroup& group) {
  const bool is_root = group.rank() == root;
  const std::string any_problem = first_problem(problem, problem_of_root(root, group));
  announce(group, call, first_problem(any_problem, is_root ? problem_of_list(tensors, group) : ""));
  if (group.world_size() == 1) return tensors[0].clone();

  std::vector<Record> records(static_cast<std::size_t>(group.world_size()));
  if (is_root)
    std::transform(tensors.begin(), tensors.end(), records.begin(),
                   [&](const at::Tensor& tensor) { return record_with(call, "", tensor); });
  Tensors all_record_bytes{bytes_of(records)};
  c10d::BroadcastOptions from_root;
  from_root.rootRank = root;
  run_c10d_call(group, call, [&](c10d::ProcessGroup& c10d) { return c10d.broadcast(all_record_bytes, from_root); });

  const std::int64_t stride = stride_of(records);
  const Record& mine = records[static_cast<std::size_t>(group.rank())];
  Tensors own{empty_bytes(stride, mine.on_gpu ? group.device() : at::kCPU)};
  if (stride > 0) {
    std::vector<Tensors> parts;
    if (is_root) {
      parts.emplace_back();
      for (const auto& tensor : tensors) parts[0].push_back(padded(tensor, stride));
    }
    c10d::ScatterOptions options;
    options.rootRank = root;
    run_c10d_call(group, call, [&](c10d::ProcessGroup& c10d) { return c10d.scatter(own, parts, options); });
  }
  return tensor_of(mine, own[0]);
}

at::Tensor broadcast_bytes(const std::string& call, const at::Tensor& bytes, int root, const std::string& problem,
                           const ProcessGroup& group) {
  const std::string any_problem = first_problem(problem, problem_of_root(root, group));
  const auto records = agree(group, record_with(call, any_problem, bytes));
  if (group.world_size() == 1) return bytes;
  Tensors own{group.rank() == root ? bytes : empty_bytes(records[static_cast<std::size_t>(root)].bytes, at::kCPU)};
  c10d::BroadcastOptions options;
  options.rootRank = root;
  run_c10d_call(group, call, [&](c10d::ProcessGroup& c10d) { return c10d.broadcast(own, options); });
  return own[0];
}

}  // namespace moves

void all_reduce(const at::Tensor& tensor, ReduceOp op, const ProcessGroup& group) {
  const WaitScope wait("reduce", group.world_size() > 1);
  moves::all_reduce(call_name("all_reduce", op) + " of " + describe(tensor), tensor, op, "", group);
}

void reduce(const at::Tensor& tensor, int root, ReduceOp op, const ProcessGroup& group) {
  const WaitScope wait("reduce", group.world_size() > 1);
  const std::string call = call_name("reduce", op, root) + " of " + describe(tensor);
  const Wire wire = wire_for(tensor, op);
  const bool is_root = group.rank() == root;
  const std::string problem = is_root ? problem_of_output(tensor, group) : problem_of(tensor, group);
  announce(group, call, first_problem(first_problem(moves::problem_of_root(root, group), problem), wire.problem));
  if (tensor.numel() == 0 || group.world_size() == 1) return;
  Tensors values{to_wire(tensor, wire)};
  if (!is_root && values[0].is_alias_of(tensor)) values[0] = values[0].clone();  // gloo overwrites it
  c10d::ReduceOptions options;
  options.reduceOp = backend_op(wire, tensor);
  options.rootRank = root;
  run_c10d_call(group, call, [&](c10d::ProcessGroup& c10d) { return c10d.reduce(values, options); });
  if (!is_root) return;
  if (divides_after(wire, tensor)) values[0].div_(group.world_size());
  from_wire(tensor, values[0], wire);
}

void broadcast(const at::Tensor& tensor, int root, const ProcessGroup& group) {
  const WaitScope wait("bcast", group.world_size() > 1);
  const std::string call = moves::call_name("broadcast", root) + " of " + describe(tensor);
  announce(group, call, first_problem(moves::problem_of_root(root, group), problem_of_output(tensor, group)));
  if (tensor.numel() == 0 || group.world_size() == 1) return;
  Tensors bytes{as_bytes(tensor)};
  c10d::BroadcastOptions options;
  options.rootRank = root;
  run_c10d_call(group, call, [&](c10d::ProcessGroup& c10d) { return c10d.broadcast(bytes, options); });
  if (group.rank() != root) copy_from_bytes(tensor, bytes[0]);
}

Tensors all_gather(const at::Tensor& tensor, const ProcessGroup& group) {
  const WaitScope wait("gather", group.world_size() > 1);
  return moves::all_gather("all_gather", tensor, "", group);
}

at::Tensor all_gather_stacked(const at::Tensor& tensor, const ProcessGroup& group) {
  const WaitScope wait("gather", group.world_size() > 1);
  const std::string call = "all_gather_stacked of " + describe(tensor);
  announce(group, call, problem_of(tensor, group));
  auto sizes = tensor.sizes().vec();
  sizes.insert(sizes.begin(), group.world_size());
  at::Tensor all = at::empty(sizes, tensor.options().requires_grad(false).memory_format(std::nullopt));
  if (tensor.numel() == 0) return all;
  at::Tensor own = as_bytes(tensor), bytes = as_bytes(all);
  if (group.world_size() == 1) {
    bytes.copy_(own);
    return all;
  }
  run_c10d_call(group, call, [&](c10d::ProcessGroup& c10d) { return c10d._allgather_base(bytes, own); });
  return all;
}

Tensors gather(const at::Tensor& tensor, int root, const ProcessGroup& group) {
  const WaitScope wait("gather", group.world_size() > 1);
  return moves::gather(moves::call_name("gather", root), tensor, root, "", group);
}

at::Tensor scatter(const Tensors& tensors, int root, const ProcessGroup& group) {
  const WaitScope wait("scatter", group.world_size() > 1);
  return moves::scatter(moves::call_name("scatter", root), tensors, root, "", group);
}

at::Tensor reduce_scatter(const Tensors& tensors, ReduceOp op, const ProcessGroup& group) {
  const WaitScope wait("redscat", group.world_size() > 1);
  std::string call = call_name("reduce_scatter", op) + " of ", problem = problem_of_list(tensors, group);
  std::int64_t stride = 0;
  if (problem.empty()) {
    call += std::string(toString(tensors[0].scalar_type())) + device_suffix(tensors[0]);
    for (const auto& tensor : tensors) {
      call += " " + sizes_text(tensor.sizes());
      stride = std::max(stride, tensor.numel());
      if (tensor.scalar_type() != tensors[0].scalar_type()) problem = "its tensors are not of one type";
    }
  }
  const Wire wire = problem.empty() ? wire_for(tensors[0], op) : Wire{};
  announce(group, call, first_problem(problem, wire.problem));
  const at::Tensor& mine = tensors[static_cast<std::size_t>(group.rank())];
  at::Tensor result = at::empty(mine.sizes(), mine.options().requires_grad(false));
  if (group.world_size() == 1) return result.copy_(mine.detach());
  if (stride == 0) return result;

  const std::int64_t values = wire.complex ? 2 : 1;
  at::Tensor in =
      at::zeros({group.world_size(), stride * values}, mine.options().dtype(wire.type).requires_grad(false));
  for (std::int64_t i = 0; i < in.size(0); ++i) {
    const at::Tensor part = to_wire(tensors[static_cast<std::size_t>(i)], wire);
    in[i].narrow(0, 0, part.numel()).copy_(part);
  }
  at::Tensor out = at::empty({stride * values}, in.options()), flat = in.view({-1});
  c10d::ReduceScatterOptions options;
  options.reduceOp = backend_op(wire, mine);
  run_c10d_call(group, call, [&](c10d::ProcessGroup& c10d) { return c10d._reduce_scatter_base(out, flat, options); });
  if (divides_after(wire, mine)) out.div_(group.world_size());
  if (mine.numel() > 0) from_wire(result, out.narrow(0, 0, mine.numel() * values), wire);
  return result;
}

Tensors all_to_all(const Tensors& tensors, const ProcessGroup& group) {
  const WaitScope wait("alltoall", group.world_size() > 1);
  const std::string call = "all_to_all" + (tensors.empty() ? "" : device_suffix(tensors[0]));
  announce(group, call, problem_of_list(tensors, group));
  if (group.world_size() == 1) return {tensors[0].detach().clone()};
  std::vector<Record> sent, received(tensors.size());
  for (const auto& tensor : tensors) sent.push_back(record_with(call, "", tensor));
  at::Tensor sent_record_bytes = bytes_of(sent), received_record_bytes = bytes_of(received);
  std::vector<std::int64_t> evenly;
  run_c10d_call(group, call, [&](c10d::ProcessGroup& c10d) {
    return c10d.alltoall_base(received_record_bytes, sent_record_bytes, evenly, evenly);
  });

  std::vector<std::int64_t> in_sizes, out_sizes;
  Tensors in_parts;
  for (std::size_t i = 0; i < sent.size(); ++i) {
    in_sizes.push_back(aligned(sent[i].bytes));
    in_parts.push_back(padded(tensors[i], in_sizes.back()));
    out_sizes.push_back(aligned(received[i].bytes));
  }
  at::Tensor in = at::cat(in_parts);
  at::Tensor out = empty_bytes(std::accumulate(out_sizes.begin(), out_sizes.end(), std::int64_t{0}), in.device());
  run_c10d_call(group, call,
                [&](c10d::ProcessGroup& c10d) { return c10d.alltoall_base(out, in, out_sizes, in_sizes); });
  Tensors parts;
  std::int64_t at = 0;
  for (std::size_t i = 0; i < received.size(); ++i) {
    parts.push_back(tensor_of(received[i], out.narrow(0, at, out_sizes[i])));
    at += out_sizes[i];
  }
  return parts;
}

void send(const at::Tensor& tensor, int to, int tag, const ProcessGroup& group) {
  const WaitScope wait("send", group.world_size() > 1);
  const std::string call = "send to rank " + std::to_string(to);
  const std::string problem = problem_of_message(tensor, "the receiver", to, tag, group);
  refuse_if_problem(call, problem.empty() && to == group.rank() ? "that is this rank itself" : problem);
  Tensors message{message_of(tensor)};
  run_c10d_call(group, call, [&](c10d::ProcessGroup& c10d) { return c10d.send(message, to, tag); });
}

int recv(const at::Tensor& tensor, int from, int tag, const ProcessGroup& group) {
  const WaitScope wait("recv", group.world_size() > 1);
  const bool any = from == kAnySource;
  const std::string call = any ? "recv from any rank" : "recv from rank " + std::to_string(from);
  std::string problem = problem_of_message(tensor, "the sender", any ? 0 : from, tag, group);
  problem = first_problem(problem, problem_of_output(tensor, group));
  if (problem.empty() && from == group.rank()) problem = "that is this rank itself";
  if (problem.empty() && any && tensor.is_cuda()) problem = "nccl must know the sender";
  refuse_if_problem(call, problem);
  Tensors message{message_of(tensor)};
  c10::intrusive_ptr<c10d::Work> work;
  run_c10d_call(group, call, [&](c10d::ProcessGroup& c10d) {
    return work = any ? c10d.recvAnysource(message, tag) : c10d.recv(message, from, tag);
  });
  if (tensor.numel() > 0) copy_from_bytes(tensor, message[0]);
  return any ? work->sourceRank() : from;
}

void sendrecv(const at::Tensor& sent, int to, const at::Tensor& received, int from, int tag,
              const ProcessGroup& group) {
  const WaitScope wait("sendrecv", group.world_size() > 1);
  const std::string call = "sendrecv to rank " + std::to_string(to) + " and from rank " + std::to_string(from);
  std::string problem = first_problem(problem_of_message(sent, "the receiver", to, tag, group),
                                      problem_of_message(received, "the sender", from, tag, group));
  problem = first_problem(problem, problem_of_output(received, group));
  if (problem.empty() && sent.device() != received.device()) problem = "its tensors are not on one device";
  const bool to_self = to == group.rank(), from_self = from == group.rank();
  if (problem.empty() && to_self != from_self) problem = "what a rank sends to itself it must receive from itself";
  refuse_if_problem(call, problem);
  if (to_self) {
    received.detach().copy_(sent.detach());
    return;
  }
  Tensors out{message_of(sent)}, in{message_of(received)};
  c10::intrusive_ptr<c10d::Work> sending;
  run_c10d_call(group, call, [&](c10d::ProcessGroup& c10d) {
    const bool gpu = sent.is_cuda();
    if (gpu) c10d.startCoalescing(at::kCUDA);  // NCCL must start both at once, or the ranks deadlock
    auto receiving = c10d.recv(in, from, tag);
    sending = c10d.send(out, to, tag);
    return gpu ? sending = c10d.endCoalescing(at::kCUDA) : receiving;
  });
  run_c10d_call(group, call, [&](c10d::ProcessGroup&) { return sending; });
  if (received.numel() > 0) copy_from_bytes(received, in[0]);
}

void barrier(const ProcessGroup& group) {
  const WaitScope wait("barrier", group.world_size() > 1);
  const bool nccl = group.backend() == Backend::nccl;
  if (group.world_size() == 1) return;
  if (group.state().check_calls) {
    agree(group, record_of("barrier", ""));  // each rank has a message from all others, which is a barrier
    if (!nccl) return;
  }
  c10d::BarrierOptions options;
  options.device = group.device();
  if (nccl) options.device_ids = {group.device().index()};
  run_c10d_call(group, "barrier", [&](c10d::ProcessGroup& c10d) { return c10d.barrier(options); });
}

int rank() { return is_initialized() ? default_group().rank() : 0; }
int local_rank() { return is_initialized() ? default_group().local_rank() : 0; }
int world_size() { return is_initialized() ? default_group().world_size() : 1; }
int local_world_size() { return is_initialized() ? default_group().local_world_size() : 1; }
bool is_main_process() { return rank() == 0; }

void synchronize() {
  if (is_initialized()) barrier(default_group());
}

}  // namespace ddprun

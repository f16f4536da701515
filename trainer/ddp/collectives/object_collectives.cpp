// JSON values, and dictionaries of numbers, over the collectives of tensors.
#include <torch/torch.h>

#include <nlohmann/json.hpp>

#include "ddprun/collectives.h"
#include "rendezvous/base/error.h"
#include "rendezvous/channel/beat_scope.h"
#include "trainer/ddp/collectives/tensor_moves.h"

namespace ddprun {
namespace {

using nlohmann::json;

constexpr std::int64_t kObjectBytesMax = std::int64_t{1} << 30;

// CBOR preserves what JSON text cannot: NaN, infinities, strings that are not UTF-8.
struct Packed {
  at::Tensor bytes = torch::empty({0}, torch::kUInt8);
  std::string problem;
};

Packed pack(const json& object) {
  Packed packed;
  try {
    const auto cbor = json::to_cbor(object);
    packed.bytes = torch::empty({static_cast<std::int64_t>(cbor.size())}, torch::kUInt8);
    std::copy(cbor.begin(), cbor.end(), packed.bytes.data_ptr<std::uint8_t>());
  } catch (const json::exception& error) {
    packed.problem = std::string("the object cannot be encoded as CBOR: ") + error.what();
  }
  if (packed.bytes.numel() > kObjectBytesMax) packed.problem = "the object is larger than 1 GiB";
  return packed;
}

json unpack(const at::Tensor& bytes) {
  const auto* begin = bytes.data_ptr<std::uint8_t>();
  try {
    return json::from_cbor(begin, begin + bytes.numel());
  } catch (const json::exception& error) {
    throw Error("what was received is not an object", error.what(), "Did the other rank send a tensor?");
  }
}

std::vector<json> unpack(const std::vector<at::Tensor>& all) {
  std::vector<json> objects;
  for (const auto& bytes : all) objects.push_back(unpack(bytes));
  return objects;
}

using TensorDict = std::map<std::string, at::Tensor>;

bool keeps_type(at::ScalarType type, bool average) { return !average || at::isFloatingType(type); }

std::string describe(const TensorDict& values) {
  std::string text = "reduce_dict of";
  for (const auto& [name, tensor] : values) {
    text += " " + name;
    if (tensor.defined() && tensor.dim() > 0) text += c10::str(tensor.sizes());
  }
  return text;
}

std::string problem_of(const TensorDict& values) {
  for (const auto& [name, tensor] : values) {
    if (!tensor.defined() || tensor.layout() != at::kStrided || tensor.is_complex())
      return "'" + name + "' is not a dense tensor of real numbers";
    if (tensor.device() != values.begin()->second.device()) return "'" + name + "' is on another device than the first";
  }
  return "";
}

}  // namespace

std::vector<json> all_gather_object(const json& object, const ProcessGroup& group) {
  const WaitScope wait("gather", group.world_size() > 1);
  const Packed packed = pack(object);
  return unpack(moves::all_gather("all_gather_object", packed.bytes, packed.problem, group));
}

std::vector<json> gather_object(const json& object, int root, const ProcessGroup& group) {
  const WaitScope wait("gather", group.world_size() > 1);
  const Packed packed = pack(object);
  return unpack(moves::gather(moves::call_name("gather_object", root), packed.bytes, root, packed.problem, group));
}

json broadcast_object(const json& object, int root, const ProcessGroup& group) {
  const WaitScope wait("bcast", group.world_size() > 1);
  const bool is_root = group.rank() == root;
  const Packed packed = is_root ? pack(object) : Packed{};
  return unpack(
      moves::broadcast_bytes(moves::call_name("broadcast_object", root), packed.bytes, root, packed.problem, group));
}

json scatter_object(const std::vector<json>& objects, int root, const ProcessGroup& group) {
  const WaitScope wait("scatter", group.world_size() > 1);
  std::vector<at::Tensor> parts;
  std::string problem;
  if (group.rank() == root) {
    if (objects.size() != static_cast<std::size_t>(group.world_size()))
      problem = "it takes one object for each of the " + std::to_string(group.world_size()) + " ranks, not " +
                std::to_string(objects.size());
    for (const json& object : objects) {
      const Packed packed = pack(object);
      parts.push_back(packed.bytes);
      if (!packed.problem.empty()) problem = packed.problem;
    }
  }
  return unpack(moves::scatter(moves::call_name("scatter_object", root), parts, root, problem, group));
}

// Sends the length in one message, then the object.
void send_object(const json& object, int to, int tag, const ProcessGroup& group) {
  const Packed packed = pack(object);
  if (!packed.problem.empty()) throw UsageError("cannot send_object", packed.problem);
  send(torch::tensor(packed.bytes.numel()), to, tag, group);
  send(packed.bytes, to, tag, group);
}

json recv_object(int from, int tag, const ProcessGroup& group) {
  const at::Tensor size = torch::empty({}, torch::kInt64);
  const int sender = recv(size, from, tag, group);
  const auto count = size.item<std::int64_t>();
  if (count < 1 || count > kObjectBytesMax)
    throw Error("cannot recv_object from rank " + std::to_string(sender), "what was received is not an object",
                "Did it send a tensor?");
  const at::Tensor bytes = torch::empty({count}, torch::kUInt8);
  recv(bytes, sender, tag, group);
  return unpack(bytes);
}

TensorDict reduce_dict(const TensorDict& values, bool average, const ProcessGroup& group) {
  const WaitScope wait("reduce", group.world_size() > 1);
  const std::string problem = problem_of(values);
  std::vector<at::Tensor> parts{torch::empty({0}, torch::kFloat64)};
  if (problem.empty() && !values.empty()) {
    parts[0] = parts[0].to(values.begin()->second.device());
    for (const auto& [name, tensor] : values) parts.push_back(tensor.detach().to(torch::kFloat64).reshape({-1}));
  }
  const at::Tensor all = torch::cat(parts);
  moves::all_reduce(describe(values) + (all.is_cuda() ? " on the GPU" : ""), all,
                    average ? ReduceOp::avg : ReduceOp::sum, problem, group);
  TensorDict result;
  std::int64_t at = 0;
  for (const auto& [name, tensor] : values) {
    const at::Tensor part = all.narrow(0, at, tensor.numel()).view(tensor.sizes());
    result[name] =
        keeps_type(tensor.scalar_type(), average) ? part.to(tensor.scalar_type(), false, /*copy=*/true) : part.clone();
    at += tensor.numel();
  }
  return result;
}

std::map<std::string, double> reduce_dict(const std::map<std::string, double>& values, bool average,
                                          const ProcessGroup& group) {
  TensorDict tensors;
  for (const auto& [name, value] : values) tensors[name] = torch::tensor(value, torch::kFloat64);
  std::map<std::string, double> result;
  for (const auto& [name, tensor] : reduce_dict(tensors, average, group)) result[name] = tensor.item<double>();
  return result;
}

}  // namespace ddprun

#include "trainer/ddp/group.h"

#include <torch/torch.h>

#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "rendezvous/error.h"
#include "trainer/ddp/gpu.h"
#include "trainer/ddp/own_address.h"
#include "trainer/ddp/store_adapter.h"

namespace ddprun {
namespace {

using c10::make_intrusive;
using Store = c10::intrusive_ptr<c10d::Store>;

// How long a rank waits for the others at the start, and for a collective. The launcher ends a worker whose peers are
// dead long before; without one this is PyTorch's own limit.
constexpr std::chrono::minutes kTimeout{30};

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// Where no launcher serves a store, rank 0 does, with PyTorch's.
Store serve_store(const RankEnv& env) {
  c10d::TCPStoreOptions options;
  options.port = env.master_port;
  options.isServer = true;
  options.waitWorkers = false;  // every key that matters is waited for anyway
  options.timeout = kTimeout;
  return make_intrusive<c10d::TCPStore>(env.master_addr, options);
}

Store reach_store(const RankEnv& env) {
  return make_intrusive<StoreAdapter>(
      Client::Options{.host = env.master_addr, .port = env.master_port, .timeout = kTimeout});
}

Error no_store(const RankEnv& env, const std::string& verb, const std::string& why) {
  return Error("rank " + std::to_string(env.rank) + " cannot " + verb + " the store at " + env.master_addr + ":" +
                   std::to_string(env.master_port),
               why, "MASTER_ADDR and MASTER_PORT must name rank 0's machine and a free port of it.");
}

Store meet_in_store(const RankEnv& env) {
  if (env.world_size == 1) return make_intrusive<c10d::HashStore>();
  const bool serves = env.rank == 0 && !env.agent_store;
  try {
    return make_intrusive<c10d::PrefixStore>("train/" + std::to_string(env.round),
                                             serves ? serve_store(env) : reach_store(env));
  } catch (const c10::Error& error) {
    throw no_store(env, "open", first_line(error.what_without_backtrace()));
  } catch (const TimeoutError& late) {
    throw no_store(env, "reach", late.what());
  }
}

c10::intrusive_ptr<c10d::Backend> make_gloo(const Store& store, const RankEnv& env) {
  using Gloo = c10d::ProcessGroupGloo;
  const std::string address = env.world_size == 1 ? "127.0.0.1" : own_address_towards(env.route_addr, env.master_port);
  auto options = Gloo::Options::create(kTimeout);
  if (!env.network_interface.empty())
    options->devices.push_back(Gloo::createDeviceForInterface(env.network_interface));
  else
    options->devices.push_back(address.empty() ? Gloo::createDefaultDevice() : Gloo::createDeviceForHostname(address));
  return make_intrusive<Gloo>(make_intrusive<c10d::PrefixStore>("gloo", store), env.rank, env.world_size, options);
}

}  // namespace

Group join_group(const RankEnv& env, at::Device device) {
  const Store store = meet_in_store(env);
  auto group = make_intrusive<c10d::ProcessGroup>(store, env.rank, env.world_size);
  group->setBackend(at::kCPU, c10d::ProcessGroup::GLOO, make_gloo(store, env));
  group->setDefaultBackend(c10d::ProcessGroup::GLOO);
  if (device.is_cuda()) {
    auto nccl = make_nccl(make_intrusive<c10d::PrefixStore>("nccl", store), env.rank, env.world_size, device);
    group->setBackend(at::kCUDA, c10d::ProcessGroup::NCCL, nccl);
    group->setDefaultBackend(c10d::ProcessGroup::NCCL);
  }
  group->setGroupName("train");
  return group;
}

std::string broadcast_bytes(const Group& group, std::string bytes, int from) {
  c10d::BroadcastOptions options;
  options.rootRank = from;
  std::vector<at::Tensor> size{torch::tensor(static_cast<std::int64_t>(bytes.size()))};
  group->broadcast(size, options)->wait();
  bytes.resize(static_cast<std::size_t>(size[0].item<std::int64_t>()));
  if (bytes.empty()) return bytes;
  std::vector<at::Tensor> content{
      torch::from_blob(bytes.data(), static_cast<std::int64_t>(bytes.size()), torch::kUInt8)};
  group->broadcast(content, options)->wait();
  return bytes;
}

std::vector<at::Tensor> gather_to_first(const Group& group, const at::Tensor& tensor) {
  std::vector<at::Tensor> in{tensor.contiguous()};  // gloo sends the first bytes of the memory, whatever the strides
  std::vector<std::vector<at::Tensor>> out;
  if (group->getRank() == 0) {
    out.emplace_back();
    for (int rank = 0; rank < group->getSize(); ++rank) out[0].push_back(torch::empty_like(in[0]));
  }
  group->gather(out, in)->wait();
  return out.empty() ? std::vector<at::Tensor>{} : out[0];
}

at::Tensor sum_to_first(const Group& group, const at::Tensor& tensor) {
  std::vector<at::Tensor> sum{tensor.clone()};
  group->reduce(sum)->wait();
  return sum[0];
}

}  // namespace ddprun

#include "trainer/ddp/collectives/broadcast_bytes.h"

#include <torch/torch.h>

#include "rendezvous/channel/beat_scope.h"

namespace ddprun {

std::string broadcast_bytes(const c10::intrusive_ptr<c10d::ProcessGroup>& group, std::string bytes, int from) {
  const WaitScope wait("bcast", group->getSize() > 1);
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

}  // namespace ddprun

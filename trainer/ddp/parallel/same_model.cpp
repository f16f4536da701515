#include "trainer/ddp/parallel/same_model.h"

#include <torch/torch.h>

#include <algorithm>
#include <sstream>

#include "rendezvous/base/error.h"
#include "trainer/ddp/collectives/broadcast_bytes.h"

namespace ddprun {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string line_of(const char* kind, const std::string& name, const at::Tensor& tensor) {
  std::ostringstream line;
  line << kind << " '" << name << "' of " << at::toString(tensor.scalar_type()) << ' ' << tensor.sizes()
       << (tensor.requires_grad() ? "" : ", frozen") << '\n';
  return line.str();
}

std::string description_of(const torch::nn::Module& module) {
  std::string text;
  for (const auto& item : module.named_parameters()) text += line_of("parameter", item.key(), item.value());
  for (const auto& item : module.named_buffers()) text += line_of("buffer", item.key(), item.value());
  return text;
}

// Empty if they are the same.
std::string difference(const std::string& own, const std::string& first) {
  if (own == first) return "";
  const auto ours = lines_of(own), theirs = lines_of(first);
  const auto [a, b] = std::mismatch(ours.begin(), ours.end(), theirs.begin(), theirs.end());
  return "it has " + (a == ours.end() ? "no " + b->substr(0, b->find(" of ")) : *a) + " where rank 0 has " +
         (b == theirs.end() ? "nothing more" : *b);
}

// The lowest rank that differs, and how; -1 if there is none.
std::pair<int, std::string> first_difference(const ProcessGroup& group, std::string own) {
  std::vector<at::Tensor> first{torch::tensor(own.empty() ? group.world_size() : group.rank(), torch::kInt)};
  c10d::AllreduceOptions lowest;
  lowest.reduceOp = c10d::ReduceOp::MIN;
  group.c10d()->allreduce(first, lowest)->wait();
  const int rank = first[0].item<int>();
  if (rank == group.world_size()) return {-1, ""};
  return {rank, broadcast_bytes(group.c10d(), std::move(own), rank)};
}

}  // namespace

void require_same_model(const ProcessGroup& group, const torch::nn::Module& module) {
  const std::string own = description_of(module);
  const auto [rank, found] = first_difference(group, difference(own, broadcast_bytes(group.c10d(), own)));
  if (rank < 0) return;
  throw Error("rank " + std::to_string(rank) + "'s model differs from rank 0's", found,
              "All ranks must build the same model.");
}

}  // namespace ddprun

// DistributedDataParallel: every rank has the model, sees its own samples and steps by the mean of all gradients.
//
// The work is c10d::Reducer's, the same that Python's DDP stands on: gradients travel in buckets while backward still
// computes. Calls and their order follow torch/nn/parallel/distributed.py, so that losses and weights equal Python's
// bit for bit. Every method is a collective: all ranks call it, in the same order; it throws when a peer is gone (see
// group.h).
#pragma once
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include <memory>
#include <vector>

#include "trainer/ddp/group.h"
#include "trainer/models.h"

namespace ddprun {

// The parameters of each bucket, by their place among those with requires_grad. Sums over three and more ranks differ
// in the last bit when a parameter sits elsewhere in its bucket, so a resumed run must begin with the order that the
// first one had come to.
using BucketOrder = std::vector<std::vector<std::size_t>>;

class Ddp {
 public:
  // Verifies that all ranks have the same parameters, then gives them rank 0's parameters and buffers.
  // `resumed` empty: the first step has one bucket; from the second on they are ordered as gradients became ready.
  Ddp(std::shared_ptr<Model> model, Group group, const BucketOrder& resumed = {});

  // One forward pass of training. After it the buffers (the running statistics of batch norm) are each rank's own;
  // those of rank 0 are the ones that count. Where training reads them every rank begins with rank 0's, as in Python;
  // else that exchange, a third of the time of a small step, is left out: it changes no weight, and broadcast_buffers()
  // before an evaluation gives the same buffers.
  at::Tensor forward(const at::Tensor& input);

  // Gives every rank rank 0's buffers, as before an evaluation.
  void broadcast_buffers();

  // The order as the next step will use it. Ask after at least one step.
  BucketOrder bucket_order();

 private:
  std::shared_ptr<Model> model_;
  Group group_;
  std::vector<at::Tensor> parameters_;
  std::shared_ptr<c10d::Reducer> reducer_;
};

}  // namespace ddprun

// Reports how long the end of a backward pass waits for the other ranks' gradients: the beat WAIT "grads".
//
// Without a worker channel it does nothing. It changes no number.
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

namespace ddprun {

class GradientWait {
 public:
  GradientWait();
  // Watches the backward pass of these outputs, which must be one that reduces gradients. `static_graph`: of the
  // reducer that waits.
  void watch(const std::vector<at::Tensor*>& outputs, bool static_graph);

  struct Pass;

 private:
  std::shared_ptr<Pass> pass_;
};

}  // namespace ddprun

#include "trainer/ddp/parallel/gradient_wait.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function_hook.h>

#include <functional>
#include <utility>

#include "rendezvous/channel/worker_channel.h"

namespace ddprun {

struct GradientWait::Pass {
  bool begun = false, waits = false;
  bool static_graph = false;
  ddprun_beat before = DDPRUN_BEAT_NONE;
};

namespace {

using Pass = std::shared_ptr<GradientWait::Pass>;

void queue_after_backward(std::function<void()> callback) {
  torch::autograd::Engine::get_default_engine().queue_callback(std::move(callback));
}

void end(GradientWait::Pass& pass) {
  pass.begun = false;
  if (std::exchange(pass.waits, false)) ddprun_channel_beat(pass.before);
}

void queue_end(const Pass& pass) {
  queue_after_backward([pass] { end(*pass); });
}

// The engine runs callbacks after the whole backward, in the order in which they were queued. The reducer's, which
// waits, was queued by the last gradient; in a static graph's first pass a callback that comes after ours queues it.
void begin_wait(const Pass& pass) {
  pass->before = ddprun_channel_wait("grads");
  pass->waits = true;
  if (pass->static_graph)
    queue_after_backward([pass] { queue_end(pass); });
  else
    queue_end(pass);
}

// Runs when backward reaches an output, before any gradient is ready.
class BackwardHook : public torch::autograd::FunctionPreHook {
 public:
  explicit BackwardHook(Pass pass) : pass_(std::move(pass)) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& gradients) override {
    if (!std::exchange(pass_->begun, true)) queue_after_backward([pass = pass_] { begin_wait(pass); });
    return gradients;
  }

 private:
  const Pass pass_;
};

}  // namespace

GradientWait::GradientWait() : pass_(std::make_shared<Pass>()) {}

void GradientWait::watch(const std::vector<at::Tensor*>& outputs, bool static_graph) {
  if (!ddprun_channel_page_) return;
  end(*pass_);  // the pass before may have ended by an exception
  pass_->static_graph = static_graph;
  for (const at::Tensor* output : outputs)
    if (output->defined() && output->grad_fn()) output->grad_fn()->add_pre_hook(std::make_unique<BackwardHook>(pass_));
}

}  // namespace ddprun

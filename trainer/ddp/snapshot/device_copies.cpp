#include "trainer/ddp/snapshot/device_copies.h"

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/torch.h>

#include <thread>

namespace ddprun {
namespace {

// Short against a step that copies megabytes; LibTorch's own wait for an event would keep a core busy.
constexpr std::chrono::microseconds kLookPeriod{50};

void wait_for(const c10::Event& event) {
  while (!event.query()) std::this_thread::sleep_for(kLookPeriod);
}

}  // namespace

DeviceCopies::DeviceCopies(at::Device device)
    : computing_(c10::impl::VirtualGuardImpl(device.type()).getStream(device)),
      copying_(c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device)),
      begun_(device.type()),
      first_done_(device.type()),
      done_(device.type()) {
  begun_.record(computing_);
  begun_.block(copying_);
}

void DeviceCopies::copy(const at::Tensor& to, const at::Tensor& from) {
  const c10::StreamGuard guard(copying_);
  to.copy_(from, /*non_blocking=*/true);
}

void DeviceCopies::copy_first(const at::Tensor& to, const at::Tensor& from) { to.copy_(from, /*non_blocking=*/true); }

void DeviceCopies::end() {
  first_done_.record(computing_);
  done_.record(copying_);
}

void DeviceCopies::hold_back() { done_.block(computing_); }

std::chrono::duration<double> DeviceCopies::wait() const {
  wait_for(begun_);
  const auto began = std::chrono::steady_clock::now();
  wait_for(first_done_);
  wait_for(done_);
  return std::chrono::steady_clock::now() - began;
}

}  // namespace ddprun

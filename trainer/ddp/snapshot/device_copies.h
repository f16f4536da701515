// Copies from a device to the host that go on while the host and the device's next work do: on a stream of their own,
// behind what the caller's stream was given before.
//
// Made, and used but for wait(), by the thread whose stream computes. For devices with streams and events.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <chrono>

namespace ddprun {

class DeviceCopies {
 public:
  explicit DeviceCopies(at::Device device);
  DeviceCopies(const DeviceCopies&) = delete;
  DeviceCopies& operator=(const DeviceCopies&) = delete;

  // `to`: pinned memory. Neither may be freed before wait(), and `from` not change before hold_back().
  void copy(const at::Tensor& to, const at::Tensor& from);
  // The same on the caller's stream: what it is given after this may change `from`.
  void copy_first(const at::Tensor& to, const at::Tensor& from);
  void end();

  // After end(): what the caller's stream is given from now on waits for the copies. The host does not.
  void hold_back();
  // After end(), in any thread: returns once all is copied. How long the copies took on the device.
  std::chrono::duration<double> wait() const;

 private:
  c10::Stream computing_, copying_;
  c10::Event begun_, first_done_, done_;
};

}  // namespace ddprun

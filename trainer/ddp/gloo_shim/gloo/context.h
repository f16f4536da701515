// Used by pointer only, never created here; its code is in libtorch_cpu.
#pragma once
#include <gloo/transport/device.h>

#include <chrono>
#include <memory>

namespace gloo {

class Context {
 public:
  void setTimeout(std::chrono::milliseconds timeout);
};

}  // namespace gloo

// Used by pointer only, never created here. UnboundBuffer's destructor is virtual so that a unique_ptr to one may be
// destroyed.
#pragma once

namespace gloo::transport {

class Device;

class UnboundBuffer {
 public:
  virtual ~UnboundBuffer() = 0;
};

}  // namespace gloo::transport

// The order of copies behind the next work of a device, of which a stand-in takes the place: it notes who waits for
// what.
#include "trainer/ddp/snapshot/device_copies.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/torch.h>

#include "tests/support/test.h"

namespace {

constexpr auto kType = c10::DeviceType::PrivateUse1;
constexpr c10::StreamId kComputing = 0, kCopying = 7;

c10::StreamId current_stream = kComputing;
std::vector<std::string> notes;
int events_made = 0, looks_left = 0;

std::string name_of(c10::StreamId stream) { return stream == kCopying ? "copying" : "computing"; }

class NotedDevice final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return kType; }
  c10::Device exchangeDevice(c10::Device) const override { return getDevice(); }
  c10::Device getDevice() const override { return {kType, 0}; }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  c10::Stream getStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::UNSAFE, device, current_stream);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    return c10::Stream(c10::Stream::UNSAFE, device, kCopying);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    const c10::StreamId before = std::exchange(current_stream, stream.id());
    return c10::Stream(c10::Stream::UNSAFE, stream.device(), before);
  }
  void record(void** event, const c10::Stream& stream, c10::DeviceIndex, c10::EventFlag) const override {
    if (!*event) *event = new int(++events_made);
    notes.push_back("event " + number(*event) + " after " + name_of(stream.id()));
  }
  void block(void* event, const c10::Stream& stream) const override {
    notes.push_back(name_of(stream.id()) + " waits for event " + number(event));
  }
  bool queryEvent(void* event) const override {
    if (looks_left-- > 0) return false;
    notes.push_back("the host sees event " + number(event));
    return true;
  }
  void destroyEvent(void* event, c10::DeviceIndex) const noexcept override { delete static_cast<int*>(event); }

 private:
  static std::string number(void* event) { return std::to_string(*static_cast<int*>(event)); }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, NotedDevice)

}  // namespace

TEST_CASE("copies begin behind the work before them, and what changes their tensors waits for their end, on the device",
          "[device_copies]") {
  const at::Tensor weight = torch::rand({3}), buffer = torch::rand({2}), to_weight = torch::zeros({3}),
                   to_buffer = torch::zeros({2});
  {
    DeviceCopies copies({kType, 0});
    copies.copy(to_weight, weight);
    copies.copy_first(to_buffer, buffer);
    copies.end();
    copies.hold_back();
    looks_left = 3;
    copies.wait();
    CHECK(current_stream == kComputing);
  }
  CHECK(notes == std::vector<std::string>{"event 1 after computing", "copying waits for event 1",
                                          "event 2 after computing", "event 3 after copying",
                                          "computing waits for event 3", "the host sees event 1",
                                          "the host sees event 2", "the host sees event 3"});
  CHECK((torch::equal(to_weight, weight) && torch::equal(to_buffer, buffer)));
}

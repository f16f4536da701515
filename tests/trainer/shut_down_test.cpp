#include "trainer/ddp/group/shut_down.h"

#include <condition_variable>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "tests/support/test.h"

namespace {

// Its calls end at once, or not before the abort.
class Slow : public c10d::Backend {
 public:
  Slow(bool stuck) : c10d::Backend(0, 1), stuck_(stuck) {}
  const std::string getBackendName() const override { return "gloo"; }
  bool supportsShutdown() const { return true; }
  void shutdown() override {
    std::unique_lock lock(mutex);
    if (stuck_) change.wait(lock, [&] { return aborted; });
    ended = true;
    change.notify_all();
  }
  void abort() override {
    const std::lock_guard lock(mutex);
    aborted = true;
    change.notify_all();
  }

  std::mutex mutex;
  std::condition_variable change;
  bool ended = false, aborted = false;

 private:
  const bool stuck_;
};

c10::intrusive_ptr<c10d::ProcessGroup> group_of(const c10::intrusive_ptr<Slow>& backend) {
  auto group = c10::make_intrusive<c10d::ProcessGroup>(c10::make_intrusive<c10d::HashStore>(), 0, 1);
  group->setBackend(at::kCPU, c10d::ProcessGroup::GLOO, backend);
  group->setDefaultBackend(c10d::ProcessGroup::GLOO);
  return group;
}

}  // namespace

TEST_CASE("a group's calls end before it is destroyed, and are not aborted", "[shut_down]") {
  const auto backend = c10::make_intrusive<Slow>(false);
  shut_down(group_of(backend), 1min);
  CHECK(backend->ended);
  CHECK_FALSE(backend->aborted);
}

TEST_CASE("calls that do not end in time are aborted", "[shut_down]") {
  const auto backend = c10::make_intrusive<Slow>(true);
  shut_down(group_of(backend), 50ms);
  CHECK(backend->aborted);
  std::unique_lock lock(backend->mutex);
  CHECK(backend->change.wait_for(lock, 1min, [&] { return backend->ended; }));
}

#include "trainer/ddp/group/shut_down.h"

#include <exception>
#include <future>
#include <thread>

namespace ddprun {

// In a thread that is left to itself where even the abort does not end it: the program goes on to its end.
void shut_down(const c10::intrusive_ptr<c10d::ProcessGroup>& group, std::chrono::milliseconds limit) {
  std::packaged_task<void()> task([group] { group->shutdown(); });  // if its peers are gone it throws: nobody asks
  const std::future<void> done = task.get_future();
  std::thread(std::move(task)).detach();
  if (done.wait_for(limit) == std::future_status::ready) return;
  abort_calls(*group);
  done.wait_for(limit);
}

void abort_calls(c10d::ProcessGroup& group) {
  try {
    group.abort();
  } catch (const std::exception&) {  // it is given up in any case
  }
}

}  // namespace ddprun

// Writes files in a thread of its own: a file system that does not answer holds up nobody else.
//
// What waits is bounded; what does not fit is dropped, and counted. A file system that does not answer is told once:
// when it does again, or after Options::told_late. The thread begins with the first write, and may outlive us: it
// cannot be ended as long as the kernel holds it. From any thread.
//
// It also reads for those who cannot wait for long: ask().
#pragma once
#include <cstddef>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "rendezvous/base/handler_time.h"
#include "rendezvous/base/time.h"

namespace ddprun::agent {

class FileThread {
 public:
  struct Options {
    std::size_t bytes_max = std::size_t{4} << 20;         // that wait
    Duration told_after = std::chrono::seconds(5);        // shorter ones are told if something was lost
    Duration told_late = std::chrono::seconds(30);        // in the midst of a longer one
    Duration last_write_limit = std::chrono::seconds(2);  // for the destructor
  };
  // `say` gets sentences without their end, in any thread.
  explicit FileThread(std::function<void(const std::string&)> say);
  FileThread(std::function<void(const std::string&)> say, Options options);
  ~FileThread();  // gives up
  // One of them has left its thread at work, which may keep this process from ending.
  static bool any_left();

  // Calls `write` in the thread, after all that was posted earlier; it returns what went wrong, of which only the first
  // is said for each `what`: a name for people, "the event log /x". `bytes` are those of a line that it appends; 0: it
  // is a file as a whole. False: dropped, as there is no room for its bytes, or there can be no further thread.
  bool post(const std::string& what, std::size_t bytes, std::function<std::string()> write);
  // The same for what is no write: nothing is lost with it, nor said where there is no thread.
  bool call(const std::string& what, std::function<std::string()> work);
  // What `read` returns in the thread, which must own all that it uses. Waits for it, at most kReadLimit; empty: it
  // took longer, or what the thread does now has.
  template <class Read>
  auto ask(const std::string& what, Read read) -> std::optional<decltype(read())>;
  // Says now, unless it has been said, that what the thread does takes long.
  void tell_late();
  // Waits until all is written, at most so long.
  bool drain(Duration most);
  // Waits for what is still to be written, at most Options::last_write_limit, and says what is not. Nothing is said
  // after that.
  void give_up();

 private:
  static constexpr Duration kReadLimit = std::chrono::seconds(1);
  struct Shared;
  bool late() const;  // by kReadLimit, with what it does now
  std::shared_ptr<Shared> shared_;
};

template <class Read>
auto FileThread::ask(const std::string& what, Read read) -> std::optional<decltype(read())> {
  const auto answer = std::make_shared<std::promise<decltype(read())>>();
  auto came = answer->get_future();
  const auto work = [answer, read = std::move(read)] {
    answer->set_value(read());
    return std::string();
  };
  const MayWait for_a_moment;
  if (late() || !call(what, work) || came.wait_for(kReadLimit) != std::future_status::ready) return {};
  return came.get();
}

}  // namespace ddprun::agent

// Writes files in a thread of its own: a file system that does not answer holds up nobody else.
//
// What waits is bounded; what does not fit is dropped, and counted. A file system that does not answer is told once:
// when it does again, or after Options::told_late. The thread begins with the first write, and may outlive us: it
// cannot be ended as long as the kernel holds it. From any thread.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

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
  ~FileThread();  // waits for what is still to be written, and says what could not be

  // Calls `write` in the thread, after all that was posted earlier; it returns what went wrong, of which only the first
  // is said for each `what`: a name for people, "the event log /x". False: dropped, as there is no room for its bytes,
  // or there can be no further thread.
  bool post(const std::string& what, std::size_t bytes, std::function<std::string()> write);
  // Waits until all is written, at most so long.
  bool drain(Duration most);

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace ddprun::agent

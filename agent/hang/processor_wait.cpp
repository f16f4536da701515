#include "agent/hang/processor_wait.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "agent/process/files/file_content.h"
#include "agent/process/process_table.h"

namespace ddprun::agent {
namespace {

std::optional<Duration> time_waited(const std::filesystem::path& thread) {
  const std::string text = file_content(thread / "schedstat");  // "ran waited slices", in nanoseconds
  const std::size_t second = text.find(' ') + 1;
  long long nanoseconds = 0;
  const auto end = std::from_chars(text.data() + second, text.data() + text.size(), nanoseconds);
  if (second == 0 || end.ec != std::errc{}) return {};
  return std::chrono::nanoseconds(nanoseconds);
}

}  // namespace

Duration ProcessorWait::since_last_look(pid_t process) {
  std::map<pid_t, Duration> now;
  Duration longest{};
  const std::map<pid_t, Duration> before = std::exchange(waited_[process], {});
  for (const auto& thread : threads_of(table_entry(process))) {
    const auto waited = time_waited(thread);
    const pid_t tid = std::atoi(thread.filename().c_str());  // NOLINT(bugprone-unchecked*): the kernel's number
    if (!waited) continue;
    if (const auto known = before.find(tid); known != before.end())
      longest = std::max(longest, *waited - known->second);
    now[tid] = *waited;
  }
  waited_[process] = std::move(now);
  return longest;
}

}  // namespace ddprun::agent

#include "agent/stacks/thread_capture.h"

#include <sched.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <system_error>
#include <thread>
#include <utility>

#include "agent/process/files/file_content.h"
#include "agent/process/process_table.h"
#include "agent/stacks/memory_map.h"
#include "agent/stacks/registers.h"
#include "agent/stacks/trace_refusal.h"
#include "rendezvous/base/spelling.h"
#include "rendezvous/base/thread.h"

namespace ddprun::agent {
namespace {

constexpr std::size_t kStackMax = std::size_t{256} * 1024;  // bytes copied; below them, a stack is read while it lives
constexpr std::chrono::milliseconds kAsleepMax{50};         // until one in uninterruptible sleep has stopped
constexpr std::chrono::milliseconds kStopMax{1'000};        // until one that only waits for a processor has
constexpr int kEagerPolls = 20;                             // a sleeping thread stops within some microseconds
constexpr std::chrono::microseconds kStopPoll{50};

std::filesystem::path entry_of(pid_t pid, pid_t tid) { return table_entry(pid) / "task" / std::to_string(tid); }

std::string one_line(const std::filesystem::path& file) {
  std::string text = file_content(file);
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

ThreadStack named_thread(pid_t pid, pid_t tid) {
  const std::filesystem::path entry = entry_of(pid, tid);
  const auto stat = task_stat(entry);
  const std::string channel = one_line(entry / "wchan");
  return {tid, one_line(entry / "comm"), stat ? stat->state : '?', channel == "0" ? "" : channel, tid == pid};
}

std::vector<pid_t> thread_ids(pid_t pid) {
  std::vector<pid_t> tids;
  for (const auto& entry : threads_of(table_entry(pid)))
    tids.push_back(std::atoi(entry.filename().c_str()));  // NOLINT(bugprone-unchecked*): the kernel's number
  std::sort(tids.begin(), tids.end(),
            [&](pid_t a, pid_t b) { return (a != pid) < (b != pid) || (a != pid && b != pid && a < b); });
  return tids;
}

// "[<0>] request_wait_answer+0x112/0x2e0" in each line → "request_wait_answer < fuse_simple_request < ..."
std::string kernel_functions(const std::string& stack) {
  std::string out;
  for (const std::string& line : split(stack, '\n')) {
    const std::size_t begin = line.find("] "), end = line.find('+');
    if (begin == line.npos || end == line.npos || end < begin) continue;
    out += (out.empty() ? "" : " < ") + line.substr(begin + 2, end - begin - 2);
  }
  return out;
}

// What the kernel says about a thread that does not stop; the system call's number is its first word.
std::string held_in_words(pid_t pid, const ThreadStack& thread) {
  const std::filesystem::path entry = entry_of(pid, thread.tid);
  std::string text = "it cannot be stopped: in state " + std::string(1, thread.state);
  if (!thread.wait_channel.empty()) text += ", in " + thread.wait_channel;
  const std::string call = one_line(entry / "syscall");
  if (!call.empty() && call[0] >= '0' && call[0] <= '9') text += ", in system call " + call.substr(0, call.find(' '));
  const std::string stack = kernel_functions(file_content(entry / "stack"));
  return stack.empty() ? text : text + ", kernel stack " + stack;
}

std::vector<std::byte> read_memory(pid_t pid, std::uint64_t begin, std::size_t size) {
  std::vector<std::byte> bytes(size);
  const iovec local{bytes.data(), size};
  const iovec remote{reinterpret_cast<void*>(begin), size};  // NOLINT(performance-no-int-to-ptr): of another process
  const ssize_t got = process_vm_readv(pid, &local, 1, &remote, 1, 0);
  bytes.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  return bytes;
}

enum class StopResult { stopped, held, gone };

// What the stopped thread must get when it goes on: a signal that was about to be delivered, else 0.
struct FoundStop {
  StopResult how = StopResult::gone;
  int signal = 0;
  TimePoint since = {};  // it was seen running at that time, so the pause began later
};

// Whether the stop has come is asked of ptrace, not of waitid(): the agent's main thread waits for its children and
// would take such news away.
bool look_for_stop(pid_t tid, FoundStop& out) {
  siginfo_t info{};
  if (ptrace(PTRACE_GETSIGINFO, tid, nullptr, &info) != 0) return false;
  out.how = StopResult::stopped;
  out.signal = info.si_code >> 8 == PTRACE_EVENT_STOP ? 0 : info.si_signo;
  return true;
}

bool has_ended(pid_t pid, pid_t tid) {
  const auto stat = task_stat(entry_of(pid, tid));
  return !stat || stat->is_dead();
}

bool is_asleep_in_kernel(pid_t pid, pid_t tid) {
  const auto stat = task_stat(entry_of(pid, tid));
  return stat && stat->state == 'D';
}

FoundStop wait_for_stop(pid_t pid, pid_t tid) {
  const TimePoint begin = Clock::now();
  TimePoint next_question = begin + kAsleepMax;
  for (int polls = 0;; ++polls) {
    FoundStop stop{StopResult::held, 0, Clock::now()};
    if (look_for_stop(tid, stop)) return stop;
    if (const TimePoint now = Clock::now(); now >= next_question) {
      if (has_ended(pid, tid)) return {};
      if (is_asleep_in_kernel(pid, tid) || now >= begin + kStopMax) return stop;
      next_question = now + kAsleepMax;
    }
    if (polls < kEagerPolls)
      sched_yield();
    else
      std::this_thread::sleep_for(kStopPoll);
  }
}

// One process's capture, which tracing threads carry on one after the other.
class Capture {
 public:
  Capture(pid_t pid, pid_t memory_of, TimePoint deadline)
      : pid_(pid), memory_of_(memory_of), deadline_(deadline), map_(memory_map(memory_of)) {}

  // From here on in a tracing thread. Returns when all are done, or one could not be stopped: it must not stop later,
  // with nobody looking, so this thread has to end now.
  void trace(std::vector<CapturedThread>& threads) {
    while (next_ < threads.size() && refused_.empty() && Clock::now() < deadline_)
      if (!trace_one(threads[next_++])) return;
    for (; next_ < threads.size(); ++next_)
      threads[next_].about.missing = refused_.empty() ? "there was no time left for it" : "";
  }

  bool done(const std::vector<CapturedThread>& threads) const { return next_ == threads.size(); }
  const std::string& refused() const { return refused_; }
  Duration longest_pause() const { return longest_pause_; }

 private:
  bool trace_one(CapturedThread& thread) {
    const pid_t tid = thread.about.tid;
    if (ptrace(PTRACE_SEIZE, tid, nullptr, nullptr) != 0) {
      const int error = errno;
      if (error == ESRCH || has_ended(pid_, tid))
        thread.about.missing = "it has ended";
      else
        refused_ = refusal(error);
      return true;
    }
    ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr);
    const FoundStop stop = wait_for_stop(pid_, tid);
    if (stop.how == StopResult::stopped) copy(thread);
    // Fails for one that is not stopped, or has just been killed.
    ptrace(PTRACE_DETACH, tid, nullptr, static_cast<std::intptr_t>(stop.signal));
    if (stop.how == StopResult::stopped) longest_pause_ = std::max(longest_pause_, Clock::now() - stop.since);
    if (stop.how == StopResult::gone) thread.about.missing = "it has ended";
    if (stop.how == StopResult::held) explain_held(thread.about);
    return stop.how == StopResult::stopped;
  }

  void copy(CapturedThread& thread) {
    const auto registers = registers_of(thread.about.tid);
    if (!registers) {
      thread.about.missing = "its registers cannot be read, as of a 32-bit program";
      return;
    }
    thread.registers = registers->values;
    thread.pc = registers->pc;
    thread.stack_begin = registers->stack_pointer - kRedZone;
    const Mapping* const mapping = mapping_from(map_, thread.stack_begin);
    const std::uint64_t left = mapping ? mapping->end - thread.stack_begin : 0;
    thread.stack = read_memory(memory_of_, thread.stack_begin, std::min<std::uint64_t>(left, kStackMax));
  }

  void explain_held(ThreadStack& thread) const {
    const ThreadStack now = named_thread(pid_, thread.tid);
    thread.state = now.state;
    thread.wait_channel = now.wait_channel;
    thread.missing = held_in_words(pid_, thread);
  }

  std::string refusal(int error) const {
    const std::string of = "the stacks of process " + std::to_string(pid_) + " cannot be taken: ";
    return of + (error == EPERM ? in_words(trace_refusal(pid_)) : std::generic_category().message(error));
  }

  const pid_t pid_, memory_of_;
  const TimePoint deadline_;
  const std::vector<Mapping> map_;
  std::size_t next_ = 0;
  std::string refused_;
  Duration longest_pause_ = Duration::zero();
};

// Empty, or why not.
std::string run_in_tracing_thread(Capture& capture, std::vector<CapturedThread>& threads) {
  std::thread tracing;
  std::string refused = start_thread(tracing, [&] { capture.trace(threads); });
  if (refused.empty()) tracing.join();
  return refused;
}

}  // namespace

CapturedProcess capture(pid_t pid, std::size_t threads_max, TimePoint deadline) {
  CapturedProcess out;
  std::vector<pid_t> tids = thread_ids(pid);
  const auto process = task_stat(pid);
  if (tids.empty() || !process || (process->is_dead() && tids.size() == 1)) {
    out.missing = "the process has ended";
    return out;
  }
  if (tids.size() > threads_max) {
    out.missing = "only the first " + std::to_string(threads_max) + " of " + std::to_string(tids.size()) + " threads";
    tids.resize(threads_max);
  }
  for (const pid_t tid : tids) out.threads.push_back({named_thread(pid, tid)});
  const auto alive = std::find_if(tids.begin(), tids.end(), [&](pid_t tid) { return !has_ended(pid, tid); });
  out.memory_of = alive == tids.end() ? pid : *alive;
  Capture capture(pid, out.memory_of, deadline);
  std::string refused;
  while (refused.empty() && !capture.done(out.threads)) refused = run_in_tracing_thread(capture, out.threads);
  if (refused.empty()) refused = capture.refused();
  if (!refused.empty()) out.missing = refused;
  out.longest_pause = capture.longest_pause();
  return out;
}

}  // namespace ddprun::agent

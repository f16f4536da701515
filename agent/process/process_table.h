// Reads the kernel's table of processes and threads, /proc/<pid>; no other file reads its stat and status files.
//
// An entry is /proc/<pid>, or /proc/<pid>/task/<tid> for one thread. A process may end at any moment: an unreadable
// entry gives nullopt, or empty. Nothing here throws.
#pragma once
#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::agent {

// For a process: its main thread's values, except `threads`.
struct TaskStat {
  char state = '?';  // 'R', 'S', 'D', 'Z', ..., proc_pid_stat(5)
  pid_t parent = 0, session = 0;
  unsigned long flags = 0;  // PF_..., include/linux/sched.h
  int threads = 0;
  unsigned long long start_time = 0;  // clock ticks since boot, of our time namespace
  unsigned long long resident_bytes = 0;
  double cpu_s = 0;     // that all its threads have used
  int wait_status = 0;  // as wait() would give it, for an ending process; 0 also if not readable

  bool is_kernel_thread() const { return flags & 0x00200000; }  // PF_KTHREAD
  bool has_execed() const { return !(flags & 0x40); }           // PF_FORKNOEXEC
  bool is_exiting() const { return flags & 0x4; }               // PF_EXITING
  bool ends_by_signal() const { return flags & 0x400; }         // PF_SIGNALED
  bool is_dead() const { return state == 'Z' || state == 'X'; }
};

// Parses a stat file. Empty: the line is incomplete.
std::optional<TaskStat> parse_task_stat(const std::string& line);

std::filesystem::path table_entry(pid_t pid);
std::optional<TaskStat> task_stat(const std::filesystem::path& entry);
std::optional<TaskStat> task_stat(pid_t pid);
// The process that traces it, as a debugger does; 0: none.
pid_t tracer_of(const std::filesystem::path& entry);
// Read and written by system calls, also from memory. 0: not readable.
unsigned long long bytes_moved(const std::filesystem::path& entry);
// Its effective user. (The owner of /proc/<pid> is root, if the process is not dumpable.)
std::optional<uid_t> user_of(const std::filesystem::path& entry);
// Whether the signal was sent to this one thread and is still pending.
bool is_pending(const std::filesystem::path& entry, int signal);

std::vector<pid_t> all_processes();
// The entries of a process's threads.
std::vector<std::filesystem::path> threads_of(const std::filesystem::path& process);

}  // namespace ddprun::agent

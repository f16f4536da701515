#include "agent/process/process_table.h"

#include <unistd.h>

#include <cstdlib>

#include "agent/process/files/file_content.h"
#include "rendezvous/base/spelling.h"

namespace ddprun::agent {
namespace fs = std::filesystem;
namespace {

// Fields of a stat file, counted from 1 as in proc_pid_stat(5).
constexpr std::size_t kState = 3, kParent = 4, kSession = 6, kFlags = 9, kUserTime = 14, kSystemTime = 15,
                      kThreads = 20, kStartTime = 22, kResident = 24, kExitCode = 52;
constexpr std::size_t kBehindName = 3;

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> all;
  std::error_code gone;
  for (fs::directory_iterator entry(folder, gone), end; !gone && entry != end; entry.increment(gone))
    all.push_back(entry->path());
  return all;
}

}  // namespace

namespace {

unsigned long long page_size() {
  static const auto kSize = static_cast<unsigned long long>(sysconf(_SC_PAGESIZE));
  return kSize;
}

double ticks_per_second() {
  static const auto kTicks = static_cast<double>(sysconf(_SC_CLK_TCK));
  return kTicks;
}

}  // namespace

std::optional<TaskStat> parse_task_stat(const std::string& line) {
  const std::size_t name_end = line.rfind(')');  // the name may contain anything
  if (name_end == line.npos) return {};
  const auto fields = words_in(std::string_view(line).substr(name_end + 1));
  if (fields.size() <= kExitCode - kBehindName) return {};
  const auto field = [&](std::size_t number) { return fields[number - kBehindName].data(); };  // its end ends a number
  const auto number = [&](std::size_t at) { return std::strtoll(field(at), nullptr, 10); };
  TaskStat stat;
  stat.state = *field(kState);
  stat.parent = static_cast<pid_t>(number(kParent));
  stat.session = static_cast<pid_t>(number(kSession));
  stat.flags = static_cast<unsigned long>(number(kFlags));
  stat.threads = static_cast<int>(number(kThreads));
  stat.start_time = static_cast<unsigned long long>(number(kStartTime));
  stat.resident_bytes = static_cast<unsigned long long>(number(kResident)) * page_size();
  stat.cpu_s = static_cast<double>(number(kUserTime) + number(kSystemTime)) / ticks_per_second();
  stat.wait_status = static_cast<int>(number(kExitCode));
  return stat;
}

fs::path table_entry(pid_t pid) { return "/proc/" + std::to_string(pid); }

std::optional<TaskStat> task_stat(const fs::path& entry) { return parse_task_stat(file_content(entry / "stat")); }

std::optional<TaskStat> task_stat(pid_t pid) { return task_stat(table_entry(pid)); }

namespace {

// What follows the name in the status file; null: there is no such line.
const char* status_value(const std::string& status, const std::string& name) {
  const std::string line = "\n" + name + ":";
  const std::size_t at = status.find(line);
  return at == status.npos ? nullptr : status.c_str() + at + line.size();
}

}  // namespace

pid_t tracer_of(const fs::path& entry) {
  const std::string status = file_content(entry / "status");
  const char* tracer = status_value(status, "TracerPid");
  return tracer ? static_cast<pid_t>(std::strtol(tracer, nullptr, 10)) : 0;
}

unsigned long long bytes_moved(const fs::path& entry) {
  const std::string io = "\n" + file_content(entry / "io");
  unsigned long long all = 0;
  for (const char* name : {"rchar", "wchar"})
    if (const char* value = status_value(io, name)) all += std::strtoull(value, nullptr, 10);
  return all;
}

std::optional<uid_t> user_of(const fs::path& entry) {
  const std::string status = file_content(entry / "status");
  const char* real = status_value(status, "Uid");
  if (!real) return {};
  char* effective = nullptr;
  std::strtoul(real, &effective, 10);
  return static_cast<uid_t>(std::strtoul(effective, nullptr, 10));
}

bool is_pending(const fs::path& entry, int signal) {
  const std::string status = file_content(entry / "status");
  const char* of_thread = status_value(status, "SigPnd");
  return of_thread && (std::strtoull(of_thread, nullptr, 16) >> (signal - 1) & 1);
}

std::vector<pid_t> all_processes() {
  std::vector<pid_t> all;
  for (const fs::path& entry : entries_of("/proc"))
    if (const pid_t pid = std::atoi(entry.filename().c_str());  // NOLINT(bugprone-unchecked*): 0 is no pid
        pid > 0)
      all.push_back(pid);
  return all;
}

std::vector<fs::path> threads_of(const fs::path& process) { return entries_of(process / "task"); }

}  // namespace ddprun::agent

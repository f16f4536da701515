#include "agent/process/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "agent/process/process_table.h"
#include "rendezvous/base/fd.h"

namespace ddprun::agent {
namespace {

std::chrono::system_clock::time_point time_of(const timespec& time) {
  const auto exact = std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  return std::chrono::system_clock::time_point(std::chrono::duration_cast<std::chrono::system_clock::duration>(exact));
}

// `place`: of a file that is known to be regular, so to open it has no effect.
std::string last_bytes(const Fd& place, off_t size) {
  const std::string path = "/proc/self/fd/" + std::to_string(place.get());
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file) return {};
  const std::size_t length = std::min(static_cast<std::size_t>(size), kFileEndMax);
  std::string out(length, '\0');
  const ssize_t got = pread(file.get(), out.data(), length, size - static_cast<off_t>(length));
  out.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return out;
}

}  // namespace

const FileEnd* OutputFiles::end_of(pid_t pid, int fd) {
  const auto path = table_entry(pid) / "fd" / std::to_string(fd);
  const Fd place(::open(path.c_str(), O_PATH | O_CLOEXEC));
  struct stat status {};
  if (!place || fstat(place.get(), &status) != 0 || !S_ISREG(status.st_mode)) return nullptr;
  const FileId id(status.st_dev, status.st_ino);
  const auto [known, is_new] = known_.try_emplace(id);
  if (is_new)
    known->second = {id, time_of(status.st_mtim), last_bytes(place, status.st_size),
                     (status.st_mode & (S_IRGRP | S_IROTH)) == 0};
  return &known->second;
}

}  // namespace ddprun::agent

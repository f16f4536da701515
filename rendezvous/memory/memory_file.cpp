#include "rendezvous/memory/memory_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <vector>

namespace ddprun {
namespace {

constexpr unsigned kNoExecSeal = 0x0008;  // MFD_NOEXEC_SEAL, Linux 6.3: some hosts require it

[[noreturn]] void fail_by_errno() { throw std::system_error(errno, std::generic_category()); }

}  // namespace

Fd make_memory_file(const char* name, std::uint64_t bytes) {
  constexpr unsigned kFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  Fd fd(memfd_create(name, kFlags | kNoExecSeal));
  if (!fd && errno == EINVAL) fd = Fd(memfd_create(name, kFlags));
  if (!fd || ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) fail_by_errno();
  return fd;
}

void seal_memory_file(int fd) {
  if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) fail_by_errno();
}

void copy_memory_file(int from, int to, std::uint64_t begin, std::uint64_t end) {
  constexpr std::uint64_t kPiece = 1 << 20;
  std::vector<char> piece(kPiece);
  for (std::uint64_t at = begin; at < end;) {
    const off_t data = lseek(from, static_cast<off_t>(at), SEEK_DATA);
    if (data < 0 && errno == ENXIO) return;  // nothing more
    if (data < 0) fail_by_errno();
    at = static_cast<std::uint64_t>(data);
    const off_t hole = lseek(from, data, SEEK_HOLE);
    if (hole < 0) fail_by_errno();
    for (const std::uint64_t until = std::min(static_cast<std::uint64_t>(hole), end); at < until;) {
      const std::size_t got = read_at(from, piece.data(), std::min(kPiece, until - at), at);
      if (got == 0) return;
      write_at(to, piece.data(), got, at);
      at += got;
    }
  }
}

std::size_t read_at(int fd, void* data, std::size_t size, std::uint64_t at) {
  std::size_t done = 0;
  while (done < size) {
    const ssize_t count = pread(fd, static_cast<char*>(data) + done, size - done, static_cast<off_t>(at + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_by_errno();
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
  }
  return done;
}

void write_at(int fd, const void* data, std::size_t size, std::uint64_t at) {
  for (std::size_t done = 0; done < size;) {
    const ssize_t count = pwrite(fd, static_cast<const char*>(data) + done, size - done, static_cast<off_t>(at + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_by_errno();
    done += static_cast<std::size_t>(count);
  }
}

}  // namespace ddprun

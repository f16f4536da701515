#include "agent/process/files/regular_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <string_view>
#include <utility>

#include "rendezvous/base/fd.h"
#include "rendezvous/base/random_name.h"

namespace ddprun::agent {
namespace fs = std::filesystem;
namespace {

constexpr std::uintmax_t kNewestBytes = std::uintmax_t{64} * 1024;

struct RegularFile {
  Fd fd = {};  // empty: there is none
  std::uintmax_t bytes = 0;
};

RegularFile open_regular(const std::string& path, Links links) {
  const int follow = links == Links::followed ? 0 : O_NOFOLLOW;
  Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | follow));
  struct stat status {};
  if (!file || fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
  return {std::move(file), static_cast<std::uintmax_t>(status.st_size)};
}

bool write_to(const Fd& file, std::string_view content) {
  while (file && !content.empty()) {
    const ssize_t written = ::write(file.get(), content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written == 0) errno = ENOSPC;
    if (written <= 0) return false;
    content.remove_prefix(static_cast<std::size_t>(written));
  }
  return static_cast<bool>(file);
}

// Some file systems cannot sync.
bool write_and_sync(const Fd& file, const std::string& content) {
  return write_to(file, content) && (fsync(file.get()) == 0 || errno == EINVAL);
}

}  // namespace

std::string beginning_of_file(const std::string& path, std::size_t bytes_max, Links links) {
  const RegularFile file = open_regular(path, links);
  if (!file.fd) return {};
  std::string out;
  std::array<char, 16'384> piece;
  while (out.size() < bytes_max) {
    const ssize_t size = ::read(file.fd.get(), piece.data(), std::min(piece.size(), bytes_max - out.size()));
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) break;
    out.append(piece.data(), static_cast<std::size_t>(size));
  }
  return out;
}

std::string newest_part(const fs::path& path, std::uintmax_t begin) {
  const RegularFile file = open_regular(path, Links::refused);
  if (!file.fd || file.bytes <= begin) return {};
  const std::uintmax_t length = std::min(file.bytes - begin, kNewestBytes);
  std::string content(length, '\0');
  const ssize_t got = pread(file.fd.get(), content.data(), length, static_cast<off_t>(file.bytes - length));
  content.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return content;
}

bool replace_file(const fs::path& path, const std::string& content, Readers readers) {
  struct stat status {};
  if (lstat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode))
    return write_to(Fd(::open(path.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)), content);
  const std::string fresh = temporary_name(path);
  const mode_t mode = readers == Readers::owner ? 0600 : 0644;
  const Fd file(::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode));
  if (!file) return false;
  if (write_and_sync(file, content) && std::rename(fresh.c_str(), path.c_str()) == 0) return true;
  const int why = errno;
  unlink(fresh.c_str());
  errno = why;
  return false;
}

}  // namespace ddprun::agent

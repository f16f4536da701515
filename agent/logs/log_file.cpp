#include "agent/logs/log_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

namespace ddprun::agent {
namespace {

constexpr int kNoPlainFile = EMEDIUMTYPE;  // open() itself never returns it

std::string numbered(const std::filesystem::path& path, int number) {
  return number == 0 ? path.string() : path.string() + "." + std::to_string(number);
}

// How many of `bytes` fit into `room` without cutting a line; 0 if not even one line fits.
std::size_t whole_lines_within(std::string_view bytes, std::uint64_t room) {
  if (bytes.size() <= room) return bytes.size();
  if (room == 0) return 0;
  const std::size_t end = bytes.find_last_of("\n\r", static_cast<std::size_t>(room) - 1);
  return end == std::string_view::npos ? 0 : end + 1;
}

}  // namespace

// A pipe with a slow reader, or none, would block us; a link could direct our output into any file of this user.
Fd open_to_append(const std::filesystem::path& path) {
  Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0666));
  if (!file) {
    if (errno == ENXIO) errno = kNoPlainFile;
    return file;
  }
  struct stat status {};
  if (fstat(file.get(), &status) == 0 && S_ISREG(status.st_mode)) {
    fcntl(file.get(), F_SETFL, O_APPEND);  // clears O_NONBLOCK: a worker gets it
    return file;
  }
  file.reset();
  errno = kNoPlainFile;
  return file;
}

std::string why_unwritable(int error) {
  if (error == ELOOP)
    return "it is a symbolic link, which ddprun does not follow: remove it, or pass another --log-dir";
  if (error == kNoPlainFile) return "it is not a regular file: remove it, or pass another --log-dir";
  return std::strerror(error);
}

OpenedFile open_own_file(const std::filesystem::path& path) {
  OpenedFile opened{open_to_append(path)};
  if (!opened.fd) opened.error = errno;
  struct stat status {};
  if (opened.fd && fstat(opened.fd.get(), &status) == 0) opened.bytes = static_cast<std::uintmax_t>(status.st_size);
  return opened;
}

int LogFile::open() {
  file_ = open_to_append(path_);
  if (!file_) return errno;
  struct stat status {};
  size_ = fstat(file_.get(), &status) == 0 ? static_cast<std::uint64_t>(status.st_size) : 0;
  return 0;
}

int LogFile::write(std::string_view bytes) {
  int error = file_ ? 0 : open();
  if (!error && missing_ > 0) error = note_gap();
  if (error) {
    missing_ += bytes.size();
    return error;
  }
  return limited() ? write_limited(bytes) : append(bytes);
}

int LogFile::append(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      missing_ += bytes.size();
      return errno;
    }
    size_ += static_cast<std::uint64_t>(written);
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

int LogFile::note_gap() {
  const std::uint64_t missing = std::exchange(missing_, 0);
  const int error = append("\nddprun: " + std::to_string(missing) + " bytes could not be written here\n");
  if (error) missing_ = missing;
  return error;
}

int LogFile::write_limited(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::uint64_t room = limit_.size_max - std::min(size_, limit_.size_max);
    std::size_t fits = whole_lines_within(bytes, room);
    if (fits == 0 && size_ == 0) fits = static_cast<std::size_t>(room);  // a line longer than the limit
    if (fits == 0) {
      if (const int error = rotate()) return missing_ += bytes.size(), error;
      continue;
    }
    if (const int error = append(bytes.substr(0, fits))) return missing_ += bytes.size() - fits, error;
    bytes.remove_prefix(fits);
  }
  return 0;
}

int LogFile::rotate() {
  if (limit_.keep <= 0) {
    if (ftruncate(file_.get(), 0) != 0) return errno;
    size_ = 0;
    return 0;
  }
  for (int number = limit_.keep; number > 0; --number)
    if (std::rename(numbered(path_, number - 1).c_str(), numbered(path_, number).c_str()) != 0 && errno != ENOENT)
      return errno;
  const int error = open();
  return error ? error : (size_ == 0 ? 0 : EEXIST);
}

}  // namespace ddprun::agent

#include "trainer/metrics/row_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "rendezvous/base/error.h"

namespace ddprun::train {
namespace {

std::system_error errno_error() { return {errno, std::generic_category()}; }

}  // namespace

RowFile::RowFile(const std::string& path)
    // Without O_NONBLOCK open() would block on a pipe without a reader.
    : fd_(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666)) {
  if (!fd_) throw errno_error();
  struct stat status {};
  const bool known = fstat(fd_.get(), &status) == 0;
  if (known && S_ISREG(status.st_mode)) {
    size_ = static_cast<std::uint64_t>(status.st_size);
    return;
  }
  if (!known) throw errno_error();
  throw Error("cannot keep metrics in " + path, "it is not a regular file", "Name another one.");
}

std::string RowFile::read(std::uint64_t offset, std::size_t size) const {
  std::string bytes(size, '\0');
  std::size_t done = 0;
  while (done < size) {
    const ssize_t count = pread(fd_.get(), bytes.data() + done, size - done, static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw errno_error();
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
  }
  bytes.resize(done);
  return bytes;
}

void RowFile::cut(std::uint64_t size) {
  if (ftruncate(fd_.get(), static_cast<off_t>(size)) != 0) throw errno_error();
  size_ = size;
  torn_ = false;
}

void RowFile::append(std::string_view row) {
  if (torn_) cut(size_);
  torn_ = true;
  std::size_t done = 0;
  while (done < row.size()) {
    const ssize_t count = pwrite(fd_.get(), row.data() + done, row.size() - done, static_cast<off_t>(size_ + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      const std::system_error error = errno_error();
      // If this fails, the next row tries it again first.
      if (ftruncate(fd_.get(), static_cast<off_t>(size_)) == 0) torn_ = false;
      throw error;
    }
    done += static_cast<std::size_t>(count);
  }
  size_ += row.size();
  torn_ = false;
}

}  // namespace ddprun::train

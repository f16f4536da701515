#include "trainer/ddp/snapshot/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "rendezvous/base/error.h"
#include "rendezvous/base/fd.h"

namespace ddprun {
namespace {

std::system_error errno_error() { return {errno, std::generic_category()}; }

Fd opened(int fd) {
  if (fd < 0) throw errno_error();
  return Fd(fd);
}

void write_all(int fd, const char* data, std::size_t size) {
  while (size > 0) {
    const ssize_t count = write(fd, data, size);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw errno_error();
    data += count;
    size -= static_cast<std::size_t>(count);
  }
}

std::string read_all(int fd) {
  struct stat status {};
  if (fstat(fd, &status) != 0) throw errno_error();
  std::string bytes(static_cast<std::size_t>(status.st_size), '\0');
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = read(fd, bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw errno_error();
    if (count == 0) break;  // truncated meanwhile
    done += static_cast<std::size_t>(count);
  }
  bytes.resize(done);
  return bytes;
}

class NewDiskFile : public NewFile {
 public:
  explicit NewDiskFile(Fd file) : file_(std::move(file)) {}
  void append(const void* data, std::size_t size) override {
    write_all(file_.get(), static_cast<const char*>(data), size);
  }
  void sync() override {
    if (fsync(file_.get()) != 0) throw errno_error();
  }

 private:
  const Fd file_;
};

class Disk : public Files {
 public:
  std::vector<std::string> names(const std::string& folder) override {
    const std::unique_ptr<DIR, int (*)(DIR*)> entries(opendir(folder.c_str()), closedir);
    if (!entries && errno == ENOENT) return {};
    if (!entries) throw errno_error();
    std::vector<std::string> result;
    while (const dirent* entry = readdir(entries.get())) result.emplace_back(entry->d_name);
    return result;
  }

  std::optional<std::string> read(const std::string& path) override {
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) return std::nullopt;
    return read_all(opened(fd).get());
  }

  std::string identity(const std::string& path) override {
    struct stat status {};
    if (stat(path.c_str(), &status) != 0) {
      if (errno == ENOENT) return {};
      throw errno_error();
    }
    const auto& changed = status.st_mtim;
    std::string result = std::to_string(changed.tv_sec) + "." + std::to_string(changed.tv_nsec);
    return result + " " + std::to_string(status.st_ino) + " " + std::to_string(status.st_size);
  }

  std::unique_ptr<NewFile> create(const std::string& path) override {
    remove(path);
    return std::make_unique<NewDiskFile>(
        opened(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666)));
  }

  void rename(const std::string& from, const std::string& to) override {
    if (std::rename(from.c_str(), to.c_str()) != 0) throw errno_error();
  }

  bool link(const std::string& from, const std::string& to) override {
    if (::link(from.c_str(), to.c_str()) == 0) return true;
    if (errno == EPERM || errno == EOPNOTSUPP || errno == ENOSYS || errno == EMLINK) return false;
    throw errno_error();
  }

  void remove(const std::string& path) override {
    if (unlink(path.c_str()) != 0 && errno != ENOENT) throw errno_error();
  }

  void sync_folder(const std::string& folder) override {
    // Some file systems cannot sync a folder; its files are kept nevertheless.
    if (fsync(opened(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)).get()) != 0 && errno != EINVAL)
      throw errno_error();
  }

  void check_writable(const std::string& folder) override {
    if (access(folder.c_str(), W_OK | X_OK) != 0) throw errno_error();
  }
};

}  // namespace

Files& disk() {
  static Disk disk;
  return disk;
}

std::string folder_of(const std::string& path) {
  const auto slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

bool is_of_name(int error) {
  return error == EACCES || error == EPERM || error == EROFS || error == ENOTDIR || error == EISDIR ||
         error == ENAMETOOLONG;
}

Refusal refusal_of(const std::string& path, int error) {
  const std::string folder = folder_of(path);
  std::error_code ignored;
  const auto status = std::filesystem::status(folder, ignored);
  if (error == ENOENT && !std::filesystem::exists(status))
    return {"there is no folder " + folder, "Create it, or name another place.", true};
  if (std::filesystem::exists(status) && !std::filesystem::is_directory(status))
    return {folder + " is not a folder", "Name another place.", true};
  const std::string why = std::generic_category().message(error);
  if (error == ENOSPC || error == EDQUOT || error == EFBIG)
    return {why, "Free some space there, or name another place."};
  return {why, "Name another place, or see to it that files can be written there.", is_of_name(error)};
}

void remove_if_possible(Files& files, const std::string& path) {
  try {
    files.remove(path);
  } catch (const std::system_error&) {
    // The first error is more informative.
  }
}

void write_and_rename(Files& files, const std::string& path, const std::string& temporary, const std::string& bytes) {
  try {
    const auto file = files.create(temporary);
    file->append(bytes.data(), bytes.size());
    file->sync();
    files.rename(temporary, path);
  } catch (const std::system_error&) {
    remove_if_possible(files, temporary);
    throw;
  }
}

std::string read_whole_file(const std::string& path, const std::string& what) {
  try {
    if (auto bytes = disk().read(path)) return std::move(*bytes);
    throw std::system_error(ENOENT, std::generic_category());
  } catch (const std::system_error& error) {
    throw Error("cannot read " + what + " " + path, error.code().message());
  }
}

}  // namespace ddprun

#include "trainer/ddp/snapshot_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "rendezvous/error.h"

namespace ddprun {
namespace {

std::string previous_of(const std::string& path) { return path + ".previous"; }
std::string damaged_of(const std::string& path) { return path + ".damaged"; }
std::string old_of(const std::string& path) { return path + ".old"; }

std::string folder_of(const std::string& path) {
  const auto slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

bool exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() { close(fd_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  operator int() const { return fd_; }

 private:
  int fd_;
};

Error unwritable(const std::string& path) {
  return Error("cannot write the snapshot " + path, std::strerror(errno),
               "Free some space there, or name another place with --snapshot.");
}

// Gone already is as good: another job in this folder may rename, too.
void rename_if_there(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0 && errno != ENOENT) throw unwritable(to);
}

void write_all(int fd, const std::string& bytes, const std::string& path) {
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t count = write(fd, bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) throw unwritable(path);
    done += static_cast<std::size_t>(count);
  }
}

void write_synced(const std::string& path, const std::string& bytes) {
  const Descriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (file < 0) throw unwritable(path);
  write_all(file, bytes, path);
  if (fsync(file) != 0) throw unwritable(path);
}

void sync_folder(const std::string& path) {
  const Descriptor folder(open(folder_of(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // Some file systems cannot sync a folder; the snapshot is there all the same.
  if (folder < 0 || (fsync(folder) != 0 && errno != EINVAL)) throw unwritable(path);
}

void put_aside(const std::string& path) {
  if (std::rename(path.c_str(), damaged_of(path).c_str()) != 0) throw unwritable(damaged_of(path));
}

}  // namespace

std::string read_whole_file(const std::string& path, const std::string& what) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status {};
  if (file < 0 || fstat(file, &status) != 0) throw Error("cannot read " + what + " " + path, std::strerror(errno));
  std::string bytes(static_cast<std::size_t>(status.st_size), '\0');
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = read(file, bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw Error("cannot read " + what + " " + path, std::strerror(errno));
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
  }
  bytes.resize(done);
  return bytes;
}

std::optional<FoundSnapshot> find_snapshot(const std::string& path,
                                           const std::function<void(const std::string&, const std::string&)>& verify,
                                           const std::function<void(const std::string&)>& warn) {
  for (const auto& candidate : {path, previous_of(path)}) {
    if (!exists(candidate)) continue;
    try {
      FoundSnapshot found{candidate, read_whole_file(candidate, "the snapshot")};
      verify(found.bytes, "the snapshot " + candidate);
      return found;
    } catch (const Error& error) {
      put_aside(candidate);  // or the next write would make it the previous one, in place of a good one
      warn(std::string(error.what()) + " It is passed over and kept as " + damaged_of(candidate) + ".");
    }
  }
  return std::nullopt;
}

void check_writable(const std::string& path) {
  if (access(folder_of(path).c_str(), W_OK | X_OK) != 0) throw unwritable(path);
}

void write_snapshot(const std::string& path, const std::string& bytes) {
  // The process id keeps two jobs in one folder apart.
  const std::string temporary = path + ".writing." + std::to_string(getpid());
  try {
    write_synced(temporary, bytes);
    rename_if_there(path, previous_of(path));
    if (std::rename(temporary.c_str(), path.c_str()) != 0) throw unwritable(path);
  } catch (const Error&) {
    unlink(temporary.c_str());
    throw;
  }
  sync_folder(path);
}

bool retire_snapshots(const std::string& path) {
  const bool found = exists(path) || exists(previous_of(path));
  rename_if_there(exists(path) ? path : previous_of(path), old_of(path));
  if (unlink(previous_of(path).c_str()) != 0 && errno != ENOENT) throw unwritable(previous_of(path));
  return found;
}

}  // namespace ddprun
